// The program wrk, which loads an HTTP server in a closed loop from a process of its own, with the
// same options for everything that is compared.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onCore, runProgram } from "./child.ts";

/** The result of one run of wrk. */
export type Load = {
  readonly callsPerSecond: number;
  readonly calls: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Answers other than 2xx, and broken connections. */
  readonly failures: number;
};

/** A request of an app. Without a body it is a GET, otherwise a POST. */
export type AppRequest = {
  readonly url: string;
  readonly token: string;
  readonly body: string | null;
  readonly headers: Readonly<Record<string, string>>;
};

/** The header of a request with a JSON body. */
export const jsonHeaders = { "Content-Type": "application/json" } as const;

/** The load parameters. `core`: the one that wrk runs on; default: any. */
export type LoadOptions = {
  readonly seconds: number;
  readonly connections: number;
  readonly core?: number;
};

/** Sends the request repeatedly. Rejects when wrk fails. */
export async function runLoad(
  request: AppRequest,
  { seconds, connections, core }: LoadOptions,
): Promise<Load> {
  const folder = mkdtempSync(join(tmpdir(), "slipway-wrk-"));
  try {
    const script = join(folder, "calls.lua");
    writeFileSync(script, scriptOf(request));
    const parameters = ["-t1", `-c${connections}`, `-d${seconds}s`, "--latency", "-s", script];
    return loadOf(await runProgram(onCore(core, ["wrk", ...parameters, request.url])));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function loadOf(printed: string): Load {
  const numbers = /^measured (.*)$/m.exec(printed)?.[1]?.split(" ").map(Number);
  if (numbers === undefined) throw new Error(`wrk printed no result:\n${printed}`);
  const [calls = 0, callsPerSecond = 0, p50Us = 0, p99Us = 0, failures = 0] = numbers;
  return { calls, callsPerSecond, p50Ms: p50Us / 1000, p99Ms: p99Us / 1000, failures };
}

function scriptOf({ token, body, headers }: AppRequest): string {
  const method = body === null ? "GET" : "POST";
  const lines = Object.entries({ Authorization: `Bearer ${token}`, ...headers }).map(
    ([name, value]) => `wrk.headers[${JSON.stringify(name)}] = ${JSON.stringify(value)}`,
  );
  if (body !== null) lines.push(`wrk.body = ${JSON.stringify(body)}`);
  return `wrk.method = "${method}"
${lines.join("\n")}
done = function(summary, latency)
  local e = summary.errors
  local failures = e.status + e.connect + e.read + e.write + e.timeout
  local persecond = summary.requests / (summary.duration / 1000000)
  print(string.format("measured %d %.1f %d %d %d", summary.requests, persecond, latency:percentile(50), latency:percentile(99), failures))
end
`;
}
