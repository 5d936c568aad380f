// A peer in the async run benchmark: the npm package pg-boss. BENCH_DATABASE names its database;
// jobs do nothing. Throughput is measured by fetching and completing in loops, because its own
// workers pause between two fetches of one job; and on a queue without notifications for new jobs,
// because PostgreSQL serializes the commits of transactions that notify.
import { setTimeout as sleep } from "node:timers/promises";
import { PgBoss } from "pg-boss";
import { servePeer, type JobWatcher, type QueuePeer } from "./queue-peer.ts";

const max = Number(process.env["BENCH_CONNECTIONS"]);
const boss = new PgBoss({
  connectionString: process.env["BENCH_DATABASE"] ?? "",
  max,
  useListenNotify: true,
});
boss.on("error", (error) => console.error(error));
const queue = "run";
const notifiedQueue = "run-notified";
/** The same number as graphile-worker. */
const concurrency = 24;
const batchSizes: Readonly<Record<string, number>> = { "one by one": 1, "batches of 100": 100 };
const idleMs = 5;
const fillAtOnce = 1_000;

await boss.start();
await boss.createQueue(queue);
await boss.createQueue(notifiedQueue, { notify: true });
let isNotified = false;

/** Runs the workers of pg-boss, which the database wakes. */
async function workNotified({ begins }: JobWatcher): Promise<() => Promise<void>> {
  await boss.work(
    notifiedQueue,
    { localConcurrency: concurrency, pollingIntervalSeconds: 0.5 },
    (jobs) => {
      for (const { id } of jobs) begins(id);
      return Promise.resolve();
    },
  );
  isNotified = true;
  return async () => {
    isNotified = false;
    await boss.offWork(notifiedQueue);
  };
}

function workInLoops(batchSize: number, { begins, isDone }: JobWatcher): () => Promise<void> {
  let isOver = false;
  const loop = async (): Promise<void> => {
    while (!isOver) {
      const jobs = await boss.fetch(queue, { batchSize });
      for (const { id } of jobs) begins(id);
      if (jobs.length === 0) await sleep(idleMs);
      else
        await boss.complete(
          queue,
          jobs.map(({ id }) => id),
        );
      for (const _ of jobs) isDone();
    }
  };
  const loops = Array.from({ length: concurrency }, loop);
  return async () => {
    isOver = true;
    await Promise.all(loops);
  };
}

const peer: QueuePeer = {
  modes: ["woken by the database", ...Object.keys(batchSizes)],
  add: async (payload) => {
    const id = await boss.send(isNotified ? notifiedQueue : queue, payload);
    if (id === null) throw new Error("the job was not added");
    return id;
  },
  fill: async (count) => {
    for (let left = count; left > 0; left -= fillAtOnce) {
      await boss.insert(
        queue,
        Array.from({ length: Math.min(left, fillAtOnce) }, () => ({ data: {} })),
      );
    }
  },
  work: (mode, watcher) => {
    const batchSize = batchSizes[mode];
    return batchSize === undefined
      ? workNotified(watcher)
      : Promise.resolve(workInLoops(batchSize, watcher));
  },
  waiting: async () => {
    const { rows } = await boss
      .getDb()
      .executeSql("select count(*)::int as count from pgboss.job where state <= 'active'");
    return (rows[0] as { count: number }).count;
  },
};
await servePeer(peer);
