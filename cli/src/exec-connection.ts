// The connection of a command in a replica: a WebSocket with the channels of Kubernetes, between
// the replica and the standard streams of this process. Neither side gets more than it takes.
import type { IncomingMessage } from "node:http";
import { execChannels, execProtocol } from "@slipway/contract/exec-routes.ts";
import { WebSocket } from "ws";
import { ApiRefused } from "./api-client.ts";
import type { Machine } from "./machine.ts";
import { plain } from "./plain-text.ts";
import { Refused } from "./refused.ts";

/** Where the command runs. */
export type ExecTarget = {
  readonly url: string;
  readonly token: string | null;
  readonly project: string;
  readonly app: string;
  readonly replica: string;
  readonly machine: Pick<Machine, "version" | "system">;
};

export type ExecWish = {
  readonly command: readonly string[];
  readonly hasInput: boolean;
  readonly hasTerminal: boolean;
};

/** `message`: for the person; null: the command said it itself. */
export type ExecOutcome = { readonly exitCode: number | null; readonly message: string | null };

const openWaitMs = 30_000;
/** The platform asks every 30 seconds whether this side is there. */
const silenceMs = 90_000;
/** More input waits until it is sent. */
const waitingBytesMax = 1_000_000;
const refusalBytesMax = 10_000;

/** The connection of one command that runs in a replica. */
export class ExecConnection {
  readonly #target: ExecTarget;
  readonly #wish: ExecWish;
  readonly #client: WebSocket;

  /** Begins to connect at once. */
  constructor(target: ExecTarget, wish: ExecWish) {
    this.#target = target;
    this.#wish = wish;
    const headers: Record<string, string> = {
      "user-agent": `slipway/${target.machine.version} (${target.machine.system})`,
    };
    if (target.token !== null) headers["authorization"] = `Bearer ${target.token}`;
    this.#client = new WebSocket(this.#address(), [execProtocol], {
      headers,
      handshakeTimeout: openWaitMs,
      perMessageDeflate: false,
    });
  }

  /** Resolves when the command has ended. Throws `Refused`. */
  async run(): Promise<ExecOutcome> {
    const outcome = this.#outcome();
    await this.#opened();
    const restore = this.#wish.hasTerminal ? this.#useTerminal() : () => undefined;
    if (this.#wish.hasInput) this.#passInput();
    try {
      return await outcome;
    } finally {
      restore();
      // A file, such as /dev/null of a cron job, has no unref.
      process.stdin.destroy();
    }
  }

  #address(): string {
    const { url, project, app, replica } = this.#target;
    const { command, hasInput, hasTerminal } = this.#wish;
    const query = new URLSearchParams(command.map((word): [string, string] => ["command", word]));
    if (hasInput) query.set("stdin", "true");
    if (hasTerminal) {
      query.set("tty", "true");
      query.set("columns", String(process.stdout.columns || 80));
      query.set("rows", String(process.stdout.rows || 24));
    }
    const parts = [project, app, replica].map((part) => encodeURIComponent(part));
    const path = `/v2/projects/${parts[0]}/apps/${parts[1]}/containers/${parts[2]}/exec`;
    return `${url.replace(/^http/, "ws")}${path}?${query.toString()}`;
  }

  #opened(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#client.once("open", resolve);
      this.#client.once("error", (error) => reject(this.#broken(error)));
      this.#client.once("unexpected-response", (_request, response) => {
        void this.#refusal(response).then(reject);
      });
    });
  }

  /** The refusal of the platform, as of any other request. */
  async #refusal(response: IncomingMessage): Promise<Refused> {
    let text = "";
    try {
      for await (const part of response.setEncoding("utf8")) {
        text += part as string;
        if (text.length > refusalBytesMax) break;
      }
      const body = JSON.parse(text) as { readonly message: string };
      return new ApiRefused(response.statusCode ?? 0, plain(body.message), body);
    } catch {
      return new Refused(
        `${this.#target.url} answered with status ${response.statusCode ?? 0} and opened no WebSocket.`,
      );
    } finally {
      this.#client.terminate();
    }
  }

  #broken(error: Error): Refused {
    const reason = "code" in error ? String(error.code) : error.message;
    return new Refused(`The connection to ${this.#target.url} broke (${reason}).`, {
      cause: error,
    });
  }

  #outcome(): Promise<ExecOutcome> {
    const client = this.#client;
    const { promise, resolve } = Promise.withResolvers<ExecOutcome>();
    let outcome: ExecOutcome | null = null;
    const late = setTimeout(() => {
      if (!client.isPaused) client.terminate();
    }, silenceMs);
    const write = (stream: NodeJS.WriteStream, bytes: Buffer): void => {
      if (stream.write(bytes)) return;
      client.pause();
      stream.once("drain", () => client.resume());
    };
    client.on("ping", () => late.refresh());
    client.on("message", (data: Buffer) => {
      late.refresh();
      const bytes = data.subarray(1);
      if (data[0] === execChannels.stdout) write(process.stdout, bytes);
      else if (data[0] === execChannels.stderr) write(process.stderr, bytes);
      else if (data[0] === execChannels.status) outcome = outcomeIn(bytes);
    });
    client.on("error", () => undefined);
    client.once("close", () => {
      clearTimeout(late);
      const message =
        "The connection broke before the command had ended; the platform ends the command.";
      resolve(outcome ?? { exitCode: null, message });
    });
    return promise;
  }

  #passInput(): void {
    const client = this.#client;
    const { stdin } = process;
    const send = (channel: number, bytes: Buffer): void => {
      if (client.readyState !== client.OPEN) return;
      client.send(Buffer.concat([Buffer.of(channel), bytes]), () => {
        if (client.bufferedAmount < waitingBytesMax) stdin.resume();
      });
      if (client.bufferedAmount >= waitingBytesMax) stdin.pause();
    };
    stdin.on("data", (bytes: Buffer) => send(execChannels.stdin, bytes));
    stdin.once("end", () => send(execChannels.close, Buffer.of(execChannels.stdin)));
    client.once("close", () => stdin.pause());
  }

  /** Each key goes to the command, Ctrl-C too. Returns what gives the terminal back. */
  #useTerminal(): () => void {
    const { stdin, stdout } = process;
    const resize = (): void => {
      if (this.#client.readyState !== this.#client.OPEN) return;
      const size = JSON.stringify({ Width: stdout.columns, Height: stdout.rows });
      this.#client.send(Buffer.concat([Buffer.of(execChannels.resize), Buffer.from(size)]));
    };
    const restore = (): void => {
      stdin.setRawMode(false);
      stdout.off("resize", resize);
      process.off("exit", restore);
    };
    stdin.setRawMode(true);
    stdout.on("resize", resize);
    process.once("exit", restore);
    return restore;
  }
}

type Status = {
  readonly status?: string;
  readonly reason?: string;
  readonly message?: string;
  readonly details?: {
    readonly causes?: readonly { readonly reason?: string; readonly message?: string }[];
  };
};

function outcomeIn(bytes: Buffer): ExecOutcome {
  const { status, reason, message, details } = JSON.parse(bytes.toString("utf8")) as Status;
  if (status === "Success") return { exitCode: 0, message: null };
  const cause = details?.causes?.find((one) => one.reason === "ExitCode")?.message;
  const exitCode = cause === undefined ? null : Number(cause);
  return { exitCode, message: reason === "NonZeroExitCode" ? null : (message ?? null) };
}
