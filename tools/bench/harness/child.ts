// Child processes of benchmarks: programs that run to their end, and servers that run until the
// benchmark is over.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import type { Readable } from "node:stream";
import type { TestContext } from "node:test";
import { until } from "@slipway/server/test/support/until.ts";

/** The deadlines for a server to start serving, and to exit. */
const startMs = 10_000;
const endMs = 5_000;

/** A program and its arguments. */
type Command = readonly [string, ...string[]];

/** Runs a program and returns its standard output. Rejects when it fails. */
export async function runProgram([program, ...args]: Command): Promise<string> {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
  const output = textOf(child.stdout);
  const errors = textOf(child.stderr);
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Error(`${program} ended with ${String(code)}:\n${output()}${errors()}`);
  return output();
}

/** A server that was started for a benchmark. */
export type ServerProcess = { readonly pid: number; readonly port: number };

/** How to start a server. */
export type ServerOptions = {
  /** The core that it runs on; default: any. */
  readonly core?: number;
  /** Where it will listen; without it, the server prints `listening <port>`. */
  readonly port?: number;
  /** Added to this process's environment. */
  readonly environment?: Readonly<Record<string, string>>;
};

/** Starts a server and waits until it listens; it is stopped after the benchmark. */
export async function startServer(
  t: TestContext,
  command: Command,
  { core, port, environment = {} }: ServerOptions,
): Promise<ServerProcess> {
  const [program, ...args] = onCore(core, command);
  const env = { ...process.env, ...environment };
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], env });
  const output = textOf(child.stdout);
  const errors = textOf(child.stderr);
  t.after(() => stop(child));
  let listening = 0;
  const isServing = async (): Promise<boolean> => {
    listening = port ?? Number(/^listening (\d+)$/m.exec(output())?.[1] ?? 0);
    return listening > 0 && (await isOpen(listening));
  };
  const isDecided = async (): Promise<boolean> => child.exitCode !== null || (await isServing());
  await until(`${command.join(" ")} listens`, isDecided, { deadlineMs: startMs });
  if (child.exitCode !== null)
    throw new Error(`${command.join(" ")} ended:\n${output()}${errors()}`);
  return { pid: child.pid ?? -1, port: listening };
}

/** The command, with the program that keeps it on one core; without a core, the command alone. */
export function onCore(core: number | undefined, command: Command): Command {
  return core === undefined ? command : ["taskset", "-c", String(core), ...command];
}

/** Collects what a stream brings. */
function textOf(stream: Readable): () => string {
  let text = "";
  stream.on("data", (chunk: Buffer) => (text += chunk.toString()));
  return () => text;
}

function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port });
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), endMs);
  await gone;
  clearTimeout(timer);
}
