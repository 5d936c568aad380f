// Throughput of signed webhook deliveries, to a receiver in a separate process: first as runs end,
// then repeatedly from waiting rows, with no other work.
import { request } from "undici";
import { until } from "@slipway/server/test/support/until.ts";
import type { Child } from "#bench/child.ts";
import { Gathered, type Cpu, type Rounds, type Scene } from "./accept-and-finish.ts";
import type { OurContender } from "./contender.ts";
import { monotonicMs } from "./monotonic.ts";
import type { Received } from "./receiver.ts";

/** One round. */
export type Delivered = Cpu & {
  readonly perSecond: number;
  readonly deliveries: number;
  readonly twice: number;
};

/** The names of the measurements. */
export const deliveryKinds = {
  runs: "runs that end, each with a webhook",
  waiting: "waiting webhooks",
} as const;

const runCount = 4_000;
const fillMs = 12_000;
const deliverMs = 120_000;
const lookMs = 20;

/** Runs all rounds. Rejects when anything was not delivered or not signed. */
export async function deliver(
  ours: OurContender,
  receiver: Child,
  scene: Scene,
): Promise<Rounds<Delivered>> {
  const gathered = new Gathered<Delivered>(scene.print);
  const { platform } = ours.app;
  const secret = await platform.api(
    "POST",
    `/v2/projects/${platform.bootstrap.projectId}/webhook-secrets`,
    {},
  );
  if (secret.status !== 201)
    throw new Error(`making a webhook secret was answered ${secret.status}`);
  for (let round = 1; round <= scene.options.rounds; round++) {
    const openAtMs = monotonicMs() + fillMs;
    await ours.fill(runCount, openAtMs, `http://127.0.0.1:${receiver.port}/hook`);
    const open = async (): Promise<void> => {
      await new Promise((resolve) => setTimeout(resolve, openAtMs - monotonicMs()));
    };
    add(gathered, deliveryKinds.runs, await measure(ours, { receiver, scene, begin: open }));
    add(
      gathered,
      deliveryKinds.waiting,
      await measure(ours, { receiver, scene, begin: () => sendAgain(ours) }),
    );
    await ours.app.database.query("delete from webhook_deliveries");
  }
  return gathered.rounds;
}

function add(gathered: Gathered<Delivered>, name: string, one: Delivered): void {
  gathered.add(name, one, `${Math.round(one.perSecond)} delivered/s, ${one.twice} twice`);
}

/** Sets finished deliveries back to waiting, and notifies the platform. */
async function sendAgain(ours: OurContender): Promise<void> {
  await ours.app.database.query(
    `with again as (
       update webhook_deliveries set state = 'pending', ended_at = null, due_at = clock_timestamp(), schedule_attempts = 0
       returning endpoint_id
     ) select pg_notify('deliveries', endpoint_id::text) from (select distinct endpoint_id from again) as endpoints`,
  );
}

type Measuring = {
  readonly receiver: Child;
  readonly scene: Scene;
  readonly begin: () => Promise<void>;
};

async function measure(
  ours: OurContender,
  { receiver, scene, begin }: Measuring,
): Promise<Delivered> {
  await counts(receiver, "reset");
  const before = { own: ours.cpuSeconds(), database: scene.server.cpuSeconds() };
  await begin();
  const isOver = async (): Promise<Received | null> => {
    await new Promise((resolve) => setTimeout(resolve, lookMs));
    const found = await counts(receiver, "");
    return found.different >= runCount ? found : null;
  };
  const { different, received, signed, firstMs, lastMs } = await until("all is delivered", isOver, {
    deadlineMs: deliverMs,
  });
  if (signed !== received) throw new Error(`${received - signed} deliveries had no signature`);
  await until("all deliveries are settled", () => areSettled(ours), { deadlineMs: deliverMs });
  const usOf = (seconds: number): number => (seconds * 1e6) / runCount;
  return {
    perSecond: (different - 1) / ((lastMs - firstMs) / 1000),
    deliveries: different,
    twice: received - different,
    ownUs: usOf(ours.cpuSeconds() - before.own),
    databaseUs: usOf(scene.server.cpuSeconds() - before.database),
  };
}

async function areSettled(ours: OurContender): Promise<boolean> {
  await ours.settled();
  const open = "select exists (select from webhook_deliveries where state = 'pending') as is_open";
  const { rows } = await ours.app.database.query<{ is_open: boolean }>(open);
  return rows[0]?.is_open === false;
}

async function counts(receiver: Child, path: string): Promise<Received> {
  const answer = await request(`http://127.0.0.1:${receiver.port}/${path}`);
  return (await answer.body.json()) as Received;
}
