// The interface of a PostgreSQL job queue in the async run benchmark, and the process that runs it:
// a minimal HTTP server that adds a job for each POST to /add and executes the benchmark's
// commands, listed below.
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "@slipway/server/test/support/until.ts";
import { closedLoop, overAfter } from "#bench/harness/closed-loop.ts";
import { monotonicMs } from "./monotonic.ts";

/** Called when a job starts and when it is done. */
export type JobWatcher = { readonly begins: (jobId: string) => void; readonly isDone: () => void };

/** A job queue to measure. */
export interface QueuePeer {
  /** The modes in which it can execute jobs; start latency is measured in the first one. */
  readonly modes: readonly string[];
  /** Adds one job durably; returns its id. */
  add(payload: object): Promise<string>;
  /** Adds many jobs as fast as possible. */
  fill(count: number): Promise<void>;
  /** Executes jobs until the returned function is called. */
  work(mode: string, watcher: JobWatcher): Promise<() => Promise<void>>;
  /** The number of waiting and running jobs, as far as it is stored. */
  waiting(): Promise<number>;
}

/** The result of executing a peer's jobs. */
export type Drained = { readonly jobs: number; readonly seconds: number };

/** Started jobs: id → milliseconds of the machine's clock. */
export type Starts = Readonly<Record<string, number>>;

const drainMs = 300_000;
const lookMs = 5;

/** Serves the peer until SIGTERM; prints its port. */
export async function servePeer(peer: QueuePeer): Promise<void> {
  let starts: Record<string, number> = {};
  let stopWork: () => Promise<void> = () => Promise.resolve();
  const control: Record<string, (query: URLSearchParams) => Promise<unknown>> = {
    bare: (query) => {
      const isOver = overAfter(Number(query.get("seconds")));
      const callers = Number(query.get("callers"));
      return closedLoop(() => peer.add({ prompt: "x".repeat(60) }), { callers, isOver });
    },
    fill: (query) => peer.fill(Number(query.get("count"))),
    drain: (query) => drain(peer, query.get("mode") ?? ""),
    waiting: () => peer.waiting(),
    work: async () => {
      starts = {};
      const begins = (jobId: string): void => void (starts[jobId] = monotonicMs());
      stopWork = await peer.work(peer.modes[0] ?? "", { begins, isDone: () => undefined });
    },
    rest: async () => {
      await until("all jobs were begun", async () => (await peer.waiting()) === 0);
      await stopWork();
    },
    starts: () => Promise.resolve(starts),
  };
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://peer");
    const name = url.pathname.slice(1);
    const answer = async (): Promise<unknown> => {
      if (name === "add") return { job_id: await peer.add(await bodyOf(request)) };
      const act = control[name];
      if (act === undefined) throw new Error(`there is no ${name}`);
      return (await act(url.searchParams)) ?? null;
    };
    answer().then(
      (value) =>
        response
          .writeHead(name === "add" ? 202 : 200, { "Content-Type": "application/json" })
          .end(JSON.stringify(value)),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  process.once("SIGTERM", () => process.exit(0));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  console.log(`listening ${(server.address() as AddressInfo).port}`);
}

async function bodyOf(request: IncomingMessage): Promise<object> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return JSON.parse(Buffer.concat(chunks).toString()) as object;
}

/**
 * From the start of the first job until the end of the last one is stored, which may be some time
 * after its end.
 */
async function drain(peer: QueuePeer, mode: string): Promise<Drained> {
  const jobs = await peer.waiting();
  if (jobs === 0) throw new Error("there is no job to work off");
  let done = 0;
  let firstMs = 0;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(
    () => reject(new Error(`${done} of ${jobs} jobs were done in ${drainMs} ms`)),
    drainMs,
  );
  const begins = (): void => void (firstMs ||= monotonicMs());
  const stop = await peer.work(mode, { begins, isDone: () => ++done === jobs && resolve() });
  try {
    await promise;
    while ((await peer.waiting()) > 0) await sleep(lookMs);
    return { jobs, seconds: (monotonicMs() - firstMs) / 1000 };
  } finally {
    clearTimeout(timer);
    await stop();
  }
}
