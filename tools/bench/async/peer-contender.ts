// A job queue in a process of its own, with its own database on the server.
import { join } from "node:path";
import type { TestContext } from "node:test";
import { startServer, type ServerProcess } from "#bench/harness/child.ts";
import type { ClosedLoop } from "#bench/harness/closed-loop.ts";
import type { DatabaseServer } from "#bench/harness/database-server.ts";
import { ownCpuSecondsOf } from "#bench/harness/process-use.ts";
import { jsonHeaders, type AppRequest } from "#bench/harness/wrk.ts";
import { getJson, runBody, type BareOptions, type Contender } from "./contender.ts";
import type { Drained, Starts } from "./queue-peer.ts";

/** One connection per caller, since each add waits for its own fsync. */
const connections = 64;

/** Job queues, each with its script beside this file and the modes in which it is measured. */
const peers = {
  "graphile-worker": {
    script: "graphile-peer.ts",
    modes: ["unbatched", "fetched and completed in batches", "unbatched, the job calls the app"],
  },
  "pg-boss": { script: "pg-boss-peer.ts", modes: ["one by one", "batches of 100"] },
} as const;

/** Starts a job queue. `appUrl`: the app that its jobs call, in modes that call one. */
export async function startPeer(
  t: TestContext,
  name: keyof typeof peers,
  { server, appUrl }: { readonly server: DatabaseServer; readonly appUrl: string },
): Promise<PeerContender> {
  const { script, modes } = peers[name];
  const environment = {
    BENCH_DATABASE: await server.database(name.replace("-", "_")),
    BENCH_CONNECTIONS: String(connections),
    BENCH_APP: appUrl,
  };
  const command = [process.execPath, join(import.meta.dirname, script)] as const;
  return new PeerContender(name, modes, await startServer(t, command, { environment }));
}

/** A job queue, which executes the commands of `queue-peer.ts`. */
export class PeerContender implements Contender {
  readonly name: string;
  readonly modes: readonly string[];
  readonly bare: (options: BareOptions) => Promise<ClosedLoop>;
  readonly #process: ServerProcess;

  constructor(name: string, modes: readonly string[], process: ServerProcess) {
    this.name = name;
    this.modes = modes;
    this.#process = process;
    this.bare = ({ seconds, connections: callers }) =>
      this.#get(`bare?seconds=${seconds}&callers=${callers}`);
  }

  runRequest(): AppRequest {
    return { url: this.#url("add"), token: "none", body: runBody(0), headers: jsonHeaders };
  }

  cpuSeconds(): number {
    return ownCpuSecondsOf(this.#process.pid);
  }

  async fill(count: number): Promise<void> {
    await this.#get(`fill?count=${count}`);
  }

  drain(mode: string): Promise<Drained> {
    return this.#get(`drain?mode=${encodeURIComponent(mode)}`);
  }

  async work(): Promise<void> {
    await this.#get("work");
  }

  async rest(): Promise<void> {
    await this.#get("rest");
  }

  starts(): Promise<Starts> {
    return this.#get("starts");
  }

  #url(path: string): string {
    return `http://127.0.0.1:${this.#process.port}/${path}`;
  }

  #get<Answer>(path: string): Promise<Answer> {
    return getJson(this.#url(path));
  }
}
