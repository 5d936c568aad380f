// The load generator: wrk, with the same options for every peer.
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** The result of one run of wrk. */
export type Load = {
  readonly callsPerSecond: number;
  readonly calls: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** Answers other than 2xx, and broken connections. */
  readonly failures: number;
};

/** The request, sent repeatedly. */
export type Asked = {
  readonly url: string;
  readonly token: string;
  readonly body: string | null;
  readonly fields: Readonly<Record<string, string>>;
};

/** The load parameters. */
export type LoadOptions = {
  readonly seconds: number;
  readonly connections: number;
  /** Null: any. */
  readonly core: number | null;
  readonly folder: string;
};

/** Runs wrk once. Rejects when it fails. */
export async function runLoad(
  asked: Asked,
  { seconds, connections, core, folder }: LoadOptions,
): Promise<Load> {
  const script = join(folder, "calls.lua");
  writeFileSync(script, scriptOf(asked));
  const wrk = ["-t1", `-c${connections}`, `-d${seconds}s`, "--latency", "-s", script, asked.url];
  const output = await (core === null
    ? run("wrk", wrk)
    : run("taskset", ["-c", String(core), "wrk", ...wrk]));
  const [calls, callsPerSecond, p50Us, p99Us, failures] =
    /^measured (.*)$/m.exec(output)?.[1]?.split(" ").map(Number) ?? [];
  if (calls === undefined || callsPerSecond === undefined)
    throw new Error(`wrk printed no result:\n${output}`);
  return {
    calls,
    callsPerSecond,
    p50Ms: (p50Us ?? 0) / 1000,
    p99Ms: (p99Us ?? 0) / 1000,
    failures: failures ?? 0,
  };
}

function scriptOf({ token, body, fields }: Asked): string {
  const method = body === null ? "GET" : "POST";
  const all = { Authorization: `Bearer ${token}`, ...fields };
  const lines = Object.entries(all).map(
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

function run(program: string, args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk: Buffer) => (output += chunk.toString()));
    child.on("error", reject);
    child.on("close", (code) =>
      code === 0 ? resolve(output) : reject(new Error(`${program} ended with ${code}:\n${output}`)),
    );
  });
}
