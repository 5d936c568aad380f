// What a job queue on PostgreSQL has to do in the benchmark of async runs, and the process that it does it in: an HTTP
// server as small as can be, which adds a job for each POST of /add, and does for the benchmark what stands below.
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { until } from "@slipway/server/test/support/until.ts";
import { closedLoop } from "./closed-loop.ts";
import { monotonicMs } from "./monotonic.ts";

/** Told of each job that begins, and of each that is done. */
export type JobWatcher = { readonly begins: (jobId: string) => void; readonly isDone: () => void };

/** A job queue under measurement. */
export interface QueuePeer {
  /** The ways in which it can work jobs off; the first is the one whose start is measured. */
  readonly modes: readonly string[];
  /** Adds one job, durably; returns its id. */
  add(payload: object): Promise<string>;
  /** Adds many at once, as fast as it can. */
  fill(count: number): Promise<void>;
  /** Works jobs off until the returned function is called. */
  work(mode: string, watcher: JobWatcher): Promise<() => Promise<void>>;
  /** How many jobs wait or are worked on, as far as is stored. */
  waiting(): Promise<number>;
}

/** How a peer worked its jobs off. */
export type Drained = { readonly jobs: number; readonly seconds: number };

/** Jobs that began: id → milliseconds of the machine's clock. */
export type Starts = Readonly<Record<string, number>>;

const drainMs = 300_000;
const lookMs = 5;

/** Serves the peer until SIGTERM; prints where. */
export async function servePeer(peer: QueuePeer): Promise<void> {
  let starts: Record<string, number> = {};
  let stopWork: () => Promise<void> = () => Promise.resolve();
  const control: Record<string, (query: URLSearchParams) => Promise<unknown>> = {
    bare: (query) => {
      const [seconds, connections] = [Number(query.get("seconds")), Number(query.get("connections"))];
      return closedLoop(() => peer.add({ prompt: "x".repeat(60) }), { seconds, connections });
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

/** From the beginning of the first job until the end of the last is stored, which may be some time after its end. */
async function drain(peer: QueuePeer, mode: string): Promise<Drained> {
  const jobs = await peer.waiting();
  if (jobs === 0) throw new Error("there is no job to work off");
  let done = 0;
  let firstMs = 0;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const timer = setTimeout(() => reject(new Error(`${done} of ${jobs} jobs were done in ${drainMs} ms`)), drainMs);
  const begins = (): void => void (firstMs ||= monotonicMs());
  const stop = await peer.work(mode, { begins, isDone: () => ++done === jobs && resolve() });
  try {
    await promise;
    while ((await peer.waiting()) > 0) await new Promise((tell) => setTimeout(tell, lookMs));
    return { jobs, seconds: (monotonicMs() - firstMs) / 1000 };
  } finally {
    clearTimeout(timer);
    await stop();
  }
}
