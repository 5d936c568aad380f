// Commands in replicas: the route that starts one, and the WebSocket that carries its input and
// output. A slow side holds up the other one: nothing is buffered here.
import type { Readable } from "node:stream";
import type { WebSocket } from "ws";
import { execProtocol, execQuery } from "@slipway/contract/exec-routes.ts";
import { allowedText } from "@slipway/contract/field.ts";
import { Fault } from "#lib/fault.ts";
import { Gate } from "#lib/gate.ts";
import { shownAppId, type ReplicaId } from "#lib/ids.ts";
import type { ExecSession, ExecWish } from "#scheduler/replica-execs.ts";
import { appOf, partOf, projectOf, type ApiCall, type Handlers } from "./call.ts";
import { frame, readFrame, execStatusOf } from "./exec-frames.ts";
import { offeredProtocols, upgraded } from "./exec-upgrade.ts";
import type { HandlerParts } from "./parts.ts";

/** The maximum number of running commands: each holds some processes and two sockets. */
const openMax = 200;
/** The maximum number of running commands in the projects of one owner. */
const ownerOpenMax = 20;
/** How often the platform checks that the client is still there, and may still run commands. */
const pingEveryMs = 30_000;
/**
 * How long a client has to receive the rest of the output once the command has ended. That rest is
 * far less than a megabyte.
 */
const lastOutputWaitMs = 15_000;
/** The size of a common terminal, for clients that send no size. */
const usualSize = { columns: 80, rows: 24 };
const clientLeftText = "The client has left.";

/** The handler of the route that runs a command. It takes over the connection. */
export function execHandlers(parts: HandlerParts) {
  // Nobody waits (`waitingMax: 0`): a command beyond the limits is refused at once.
  const gate = new Gate({ max: openMax, keyMax: ownerOpenMax, waitingMax: 0, refusal: tooMany });
  const execInContainer = async (call: ApiCall): Promise<undefined> => {
    const wish = await wishOf(call, parts);
    const key = await parts.ownerKeyOf(projectOf(call));
    return await gate.run(() => runCommand(wish, { call, parts }), { key });
  };
  return { execInContainer } satisfies Handlers;
}

function tooMany(): Fault {
  const text = `At most ${ownerOpenMax} commands may run in the projects of one owner, and ${openMax} on the whole platform: end one first.`;
  return new Fault("rate_limited", text, { retryAfterSeconds: 10 });
}

/**
 * The command to run. Throws `Fault` when the request is not valid, or names no running replica.
 */
async function wishOf(call: ApiCall, parts: HandlerParts): Promise<ExecWish> {
  const command = commandOf(call);
  requireProtocol(call);
  const replicaId = partOf(call, "container_id") as ReplicaId;
  const replicas = await parts.apps.replicas(projectOf(call), appOf(call));
  if (!replicas.some(({ id }) => id === replicaId)) throw notRunning();
  return { replicaId, command, terminal: call.query["tty"] === true ? sizeOf(call) : null };
}

async function runCommand(wish: ExecWish, { call, parts }: ExecContext): Promise<undefined> {
  const { replicaId, command, terminal } = wish;
  const projectId = projectOf(call);
  const [program, ...argumentList] = command;
  const began = parts.clock.monotonicMs();
  const app = shownAppId(appOf(call));
  // The audit log gets only the number of the arguments, not their texts.
  const commandChanges = {
    app: { new: app },
    program: { new: program },
    arguments: { new: argumentList.length },
  };
  const entry = { projectId, replicaId, by: call.by } as const;
  const recordEnd = async ({ exitCode, message }: Awaited<ExecSession["ended"]>): Promise<void> => {
    const seconds = Math.round((parts.clock.monotonicMs() - began) / 1000);
    const end = {
      exitCode: { new: exitCode },
      seconds: { new: seconds },
      endedBecause: { new: message },
    };
    const changes = { ...commandChanges, ...end };
    await parts
      .recordOfReplica({ ...entry, action: "replica.exec_end", changes })
      .catch((error: unknown) => {
        parts.log.error(
          { err: error, replicaId },
          "the end of a command in a replica could not be recorded",
        );
      });
  };
  // The start is recorded before the command starts, so that no command runs unrecorded.
  const changes = { ...commandChanges, terminal: { new: terminal !== null } };
  await parts.recordOfReplica({ ...entry, action: "replica.exec", changes });
  const session = await parts.execs.open(wish).catch(async (error: unknown) => {
    await recordEnd({
      exitCode: null,
      message: error instanceof Fault ? error.message : "It could not be started.",
    });
    throw error;
  });
  // This client sends no input, so the command must not wait for input.
  if (call.query["stdin"] !== true) session.stdin.end();
  call.reply.hijack();
  const client = await upgraded(call.request.raw);
  if (client === null) session.end(clientLeftText);
  else await serve(client, session, { call, parts });
  await recordEnd(await session.ended);
  return undefined;
}

/** Throws `Fault("invalid")` unless the request opens a WebSocket with the protocol of commands. */
function requireProtocol({ request }: ApiCall): void {
  const offered = offeredProtocols(request.raw);
  if (offered?.includes(execProtocol) === true) return;
  const problem =
    offered === null
      ? "The request opens no WebSocket"
      : `Sec-WebSocket-Protocol has no ${execProtocol}`;
  throw new Fault(
    "invalid",
    `${problem}; open one with the subprotocol ${execProtocol}. The command line does: slipway exec.`,
  );
}

function notRunning(): Fault {
  return new Fault(
    "not_found",
    "The app has no running replica with that id. GET …/apps/{app}/containers lists them.",
  );
}

/**
 * The program and its arguments, whose shape the contract has checked. Throws `Fault("invalid")`
 * when no program is named.
 */
function commandOf({ query }: ApiCall): [string, ...string[]] {
  // A parameter that is sent once is a text, and one that is repeated a list.
  const value = query["command"] as unknown as string | readonly string[] | null;
  const [program = "", ...rest] = typeof value === "string" ? [value] : (value ?? []);
  if (program !== "") return [program, ...rest];
  throw new Fault(
    "invalid",
    `command is missing; it must be ${allowedText(execQuery.command)}, the program first.`,
  );
}

function sizeOf({ query }: ApiCall): { columns: number; rows: number } {
  const side = (name: "columns" | "rows"): number => Number(query[name] ?? usualSize[name]);
  return { columns: side("columns"), rows: side("rows") };
}

type ExecContext = { readonly call: ApiCall; readonly parts: HandlerParts };

/**
 * Passes input and output between the client and the command. Resolves when the client has received
 * the end of the command, or has left.
 */
async function serve(
  client: WebSocket,
  session: ExecSession,
  { call, parts }: ExecContext,
): Promise<void> {
  const watch = watchClient(client, session, { call, parts });
  let cancelWait = (): void => undefined;
  void session.ended.then(() => {
    cancelWait = parts.clock.after(lastOutputWaitMs, () => client.terminate());
  });
  forwardInput(client, session, call.query["stdin"] === true);
  const send = async (bytes: Buffer): Promise<void> => {
    watch.unsentCount++;
    try {
      await new Promise<void>((resolve) => client.send(bytes, () => resolve()));
    } finally {
      watch.unsentCount--;
    }
    session.noteUse();
  };
  const pump = async (channel: "stdout" | "stderr", stream: Readable): Promise<void> => {
    for await (const chunk of stream) await send(frame(channel, chunk as Buffer));
  };
  // A stream that the driver has closed early rejects here; `session.ended` says how the command
  // ended.
  await Promise.allSettled([pump("stdout", session.stdout), pump("stderr", session.stderr)]);
  const end = await session.ended;
  watch.stop();
  if (client.readyState === client.OPEN) {
    await send(frame("status", execStatusOf(end)));
    // WebSocket's codes: 1001 says that the server goes away, 1000 that all is done.
    client.close(parts.stopping.aborted ? 1001 : 1000);
  }
  cancelWait();
}

/**
 * Ends the command when the client has left, the caller has lost the permission, or the platform
 * stops.
 */
function watchClient(client: WebSocket, session: ExecSession, { call, parts }: ExecContext) {
  const { clock, stopping } = parts;
  const watch = { unsentCount: 0, stop: (): void => undefined };
  let isAlive = true;
  let cancel = (): void => undefined;
  const onStopping = (): void => session.end("The platform is stopping.");
  const checkClient = (): void => {
    // A client whose pong is missing may still be there: the ping waits behind unsent output, and
    // no pong is read while the client's input is paused. In these two cases only the limit of the
    // session's idle time ends the command.
    if (!isAlive && watch.unsentCount === 0 && !client.isPaused) return client.terminate();
    isAlive = false;
    client.ping();
    call.admit().catch(() => session.end("You may not run commands here any more."));
    cancel = clock.after(pingEveryMs, checkClient);
  };
  cancel = clock.after(pingEveryMs, checkClient);
  watch.stop = () => {
    cancel();
    stopping.removeEventListener("abort", onStopping);
  };
  stopping.addEventListener("abort", onStopping);
  if (stopping.aborted) onStopping();
  client
    .on("pong", () => {
      isAlive = true;
    })
    .on("error", () => undefined)
    .on("close", () => {
      watch.stop();
      session.end(clientLeftText);
    });
  return watch;
}

/** Passes on the client's input, no faster than the command reads it. */
function forwardInput(client: WebSocket, session: ExecSession, hasInput: boolean): void {
  const { stdin } = session;
  const resume = (): void => client.resume();
  stdin.on("drain", resume).on("close", resume).on("error", resume);
  client.on("message", (data: Buffer) => {
    session.noteUse();
    const input = readFrame(data);
    if (input.kind === "resize") return session.resize(input);
    if (!hasInput || !stdin.writable) return;
    if (input.kind === "close") stdin.end();
    else if (input.kind === "stdin" && !stdin.write(input.bytes)) client.pause();
  });
}
