// A peer in the async run benchmark: the npm package graphile-worker. BENCH_DATABASE names its
// database. The job does nothing or, in one of the modes, calls the same app as our runs, at the
// address in BENCH_APP.
import { Logger, makeWorkerUtils, run, type WorkerEvents } from "graphile-worker";
import { EventEmitter } from "node:events";
import { Pool } from "undici";
import { servePeer, type JobWatcher, type QueuePeer } from "./queue-peer.ts";

const connectionString = process.env["BENCH_DATABASE"] ?? "";
const maxPoolSize = Number(process.env["BENCH_CONNECTIONS"]);
const app = process.env["BENCH_APP"] ?? "";
/** The number that its own throughput measurements use. */
const concurrency = 24;
const logger = new Logger(() => () => undefined);
const options = { connectionString, logger };
const fillAtOnce = 1_000;

const modes = {
  unbatched: {},
  "fetched and completed in batches": { localQueue: { size: 500 }, completeJobBatchDelay: 0 },
  "unbatched, the job calls the app": {},
} as const;

const utils = await makeWorkerUtils({ ...options, maxPoolSize });
await utils.migrate();
const upstream = new Pool(app, { connections: concurrency, pipelining: 1 });

async function callApp(payload: unknown): Promise<void> {
  const body = JSON.stringify(payload);
  const headers = { "content-type": "application/json" };
  const answer = await upstream.request({ method: "POST", path: "/run", headers, body });
  await answer.body.text();
}

async function work(mode: string, { begins, isDone }: JobWatcher): Promise<() => Promise<void>> {
  const events: WorkerEvents = new EventEmitter();
  events.on("job:complete", isDone);
  const doesCall = mode.endsWith("calls the app");
  const task = async (payload: unknown, { job }: { job: { id: string } }): Promise<void> => {
    begins(job.id);
    if (doesCall) await callApp(payload);
  };
  const worker = modes[mode as keyof typeof modes];
  const runner = await run({
    ...options,
    concurrency,
    events,
    noHandleSignals: true,
    taskList: { run: task },
    // One connection per running job, and one that listens.
    maxPoolSize: concurrency + 1,
    preset: { worker },
  });
  return () => runner.stop();
}

const peer: QueuePeer = {
  modes: Object.keys(modes),
  add: async (payload) => (await utils.addJob("run", payload)).id,
  fill: async (count) => {
    for (let left = count; left > 0; left -= fillAtOnce) {
      const jobs = Array.from({ length: Math.min(left, fillAtOnce) }, () => ({
        identifier: "run",
        payload: {},
      }));
      await utils.addJobs(jobs);
    }
  },
  work,
  waiting: () =>
    utils.withPgClient(async (client) => {
      const { rows } = await client.query<{ count: number }>(
        "select count(*)::int as count from graphile_worker.jobs",
      );
      return rows[0]?.count ?? 0;
    }),
};
await servePeer(peer);
