// Throughput of signed webhook deliveries, to a receiver in a separate process: first as runs end,
// then repeatedly from waiting rows, with no other work.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "@slipway/server/test/support/until.ts";
import { startServer } from "#bench/harness/child.ts";
import { byName, inRounds, roundText } from "#bench/harness/rounds.ts";
import { getJson } from "./contender.ts";
import { monotonicMs } from "./monotonic.ts";
import type { OurContender } from "./our-contender.ts";
import type { Received } from "./receiver.ts";
import { withCpu, type Cpu, type Rounds, type Scene } from "./scene.ts";

/** One round. */
export type Delivered = Cpu & {
  readonly perSecond: number;
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
export async function deliver(ours: OurContender, scene: Scene): Promise<Rounds<Delivered>> {
  const script = join(import.meta.dirname, "receiver.ts");
  const { port } = await startServer(scene.t, [process.execPath, script], {});
  const receiverUrl = `http://127.0.0.1:${port}`;
  const { platform, database } = ours.app;
  const secrets = `/v2/projects/${platform.bootstrap.projectId}/webhook-secrets`;
  const secret = await platform.api("POST", secrets, {});
  if (secret.status !== 201)
    throw new Error(`making a webhook secret was answered ${secret.status}`);
  const oneRound = async (round: number): Promise<Record<string, Delivered>> => {
    const openAtMs = monotonicMs() + fillMs;
    await ours.fill(runCount, openAtMs, `${receiverUrl}/hook`);
    const ending = await measure(ours, { receiverUrl, scene }, () =>
      sleep(openAtMs - monotonicMs()),
    );
    const waiting = await measure(ours, { receiverUrl, scene }, () => sendAgain(ours));
    await database.query("delete from webhook_deliveries");
    const measured = { [deliveryKinds.runs]: ending, [deliveryKinds.waiting]: waiting };
    for (const [name, { perSecond, twice }] of Object.entries(measured))
      scene.print(
        `${roundText(round)}, ${name}: ${perSecond.toFixed(0)} delivered/s, ${twice} twice`,
      );
    return measured;
  };
  return byName(await inRounds(scene.options.rounds, oneRound, { warmUps: 0 }));
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

/** From `begin` until all is delivered. */
async function measure(
  ours: OurContender,
  { receiverUrl, scene }: { readonly receiverUrl: string; readonly scene: Scene },
  begin: () => Promise<unknown>,
): Promise<Delivered> {
  await getJson(`${receiverUrl}/reset`);
  const received = async (): Promise<Received | null> => {
    await sleep(lookMs);
    const found = await getJson<Received>(receiverUrl);
    return found.different >= runCount ? found : null;
  };
  const work = async (): Promise<Received> => {
    await begin();
    const all = await until("all is delivered", received, { deadlineMs: deliverMs });
    await until("all deliveries are settled", () => areSettled(ours), { deadlineMs: deliverMs });
    return all;
  };
  const all = await withCpu(scene, ours, { work, count: () => runCount });
  if (all.signed !== all.received)
    throw new Error(`${all.received - all.signed} deliveries had no signature`);
  return {
    perSecond: (all.different - 1) / ((all.lastMs - all.firstMs) / 1000),
    twice: all.received - all.different,
    ownUs: all.ownUs,
    databaseUs: all.databaseUs,
  };
}

async function areSettled(ours: OurContender): Promise<boolean> {
  await ours.settled();
  const open = "select exists (select from webhook_deliveries where state = 'pending') as is_open";
  const { rows } = await ours.app.database.query<{ is_open: boolean }>(open);
  return rows[0]?.is_open === false;
}
