// A platform's webhooks in a process of its own, which kills itself right after a given step.
// Arguments: the database's URL, the step and how often it comes before, as in `written:3`, and
// what to do first as JSON (see `ChildTask`).
import { ownerKeys } from "#accounts/owner-keys.ts";
import { systemClock } from "#lib/clock.ts";
import type { DeliveryId, EndpointId, ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { OutwardClient } from "#lib/outward-request.ts";
import { OutwardGuard } from "#lib/outward-guard.ts";
import { Sealer } from "#lib/seal.ts";
import { Secret } from "#lib/secret.ts";
import { Notifications } from "#store/notify.ts";
import type { NewDelivery } from "#webhooks/delivery.ts";
import { Webhooks } from "#webhooks/webhooks.ts";
import { byPlatform } from "./support/accounts.ts";
import { connect } from "./support/connect.ts";

/** What the process does once it is ready. Bodies are all the same. */
export type ChildTask = {
  readonly projectId: ProjectId;
  readonly add?: readonly Omit<NewDelivery, "body" | "secret">[];
  readonly replay?: DeliveryId;
  readonly resume?: EndpointId;
};

const [databaseUrl = "", stepText = "", taskText = ""] = process.argv.slice(2);
const [step = "", timesText = "0"] = stepText.split(":");
let timesLeft = Number(timesText);
const task = JSON.parse(taskText) as ChildTask;
const url = new Secret(databaseUrl);
const db = await connect(url, 4);
const notifications = new Notifications({ clock: systemClock, url, log: silentLog });
await notifications.start();
const guard = new OutwardGuard({ allow: ["127.0.0.0/8"] });
const webhooks = new Webhooks({
  db,
  notifications,
  ownerKeyOf: ownerKeys({ db, clock: systemClock }),
  clock: systemClock,
  log: silentLog,
  instanceId: "crashing",
  sealer: new Sealer(["11".repeat(32)]),
  client: new OutwardClient({ guard, clock: systemClock, userAgent: "Slipway" }),
  atOnce: 16,
  leaseMs: 3000,
  surveyMs: 200,
  onStep: (name) => {
    if (name === step && timesLeft-- === 0) process.kill(process.pid, "SIGKILL");
  },
});
await webhooks.start();
const added = (task.add ?? []).map((delivery) => ({
  ...delivery,
  body: Buffer.from("{}"),
  secret: new Secret("s"),
}));
if (added.length > 0) {
  webhooks.outbox.committed(await db.transaction().execute((tx) => webhooks.outbox.add(tx, added)));
}
if (task.replay !== undefined)
  await webhooks.useCases.replay(task.projectId, task.replay, byPlatform);
if (task.resume !== undefined)
  await webhooks.useCases.resumeEndpoint(task.projectId, task.resume, byPlatform);
