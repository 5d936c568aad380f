// The program h2load, which loads an HTTP server in a closed loop from a process of its own, over
// HTTP/1.1 or HTTP/2, with or without TLS.
import { onCore, runProgram } from "./child.ts";

/** What is sent, and how. */
export type H2Load = {
  readonly url: string;
  readonly token: string;
  readonly seconds: number;
  readonly connections: number;
  /** How many calls each connection has at once. */
  readonly streams: number;
  readonly isHttp2: boolean;
  /** The one cipher of TLS 1.3 that is offered. */
  readonly cipher: string;
  /** The core that h2load runs on. */
  readonly core: number;
};

/** Sends GET requests. Rejects when h2load fails, or a call does. */
export async function runH2load({
  url,
  token,
  seconds,
  connections,
  streams,
  isHttp2,
  cipher,
  core,
}: H2Load): Promise<{ readonly calls: number; readonly callsPerSecond: number }> {
  const words = [
    `--duration=${seconds}`,
    `--clients=${connections}`,
    `--max-concurrent-streams=${streams}`,
    `--tls13-ciphers=${cipher}`,
    `--header=authorization: Bearer ${token}`,
    ...(isHttp2 ? [] : ["--h1"]),
    url,
  ];
  const printed = await runProgram(onCore(core, ["h2load", ...words]));
  const calls = Number(/ (\d+) succeeded,/.exec(printed)?.[1] ?? 0);
  const failed = Number(/ (\d+) 4xx, /.exec(printed)?.[1] ?? 0) + numberOf(printed, /, (\d+) 5xx/);
  if (calls === 0 || failed > 0) throw new Error(`h2load: calls failed:\n${printed}`);
  return { calls, callsPerSecond: numberOf(printed, / ([\d.]+) req\/s/) };
}

function numberOf(text: string, form: RegExp): number {
  return Number(form.exec(text)?.[1] ?? 0);
}
