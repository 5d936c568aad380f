// What the tests of webhooks stand on: a real database, real receivers on this machine, and one or
// more platforms' webhooks.
import { randomUUID } from "node:crypto";
import { ownerKeys } from "#accounts/owner-keys.ts";
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { Webhook } from "standardwebhooks";
import { systemClock } from "#lib/clock.ts";
import { appIdOf, newRunId, type DeliveryId, type ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { OutwardClient } from "#lib/outward-request.ts";
import { OutwardGuard } from "#lib/outward-guard.ts";
import type { Secret } from "#lib/secret.ts";
import type { Db } from "#store/database.ts";
import { Notifications } from "#store/notify.ts";
import { testAccounts, type Accounts } from "#test/support/accounts.ts";
import { until } from "#test/support/until.ts";
import type { DeliveryItem } from "#webhooks/use-cases.ts";
import type { NewDelivery } from "#webhooks/delivery.ts";
import type { AddedDelivery } from "#webhooks/outbox.ts";
import { Webhooks, type WebhooksOptions } from "#webhooks/webhooks.ts";

/** The first page of a list, as long as by default. */
export const firstPage = { pageSize: 50, nextToken: null } as const;

/** One request that a receiver got. */
export type Received = {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly atMs: number;
};

/** Answers one request; the test's. */
export type Answer = (response: ServerResponse, received: Received) => void;

/** A server on this machine that keeps what it got. */
export type Receiver = {
  readonly url: string;
  readonly received: Received[];
  /** How it answers from now on; at first 200 without a body. */
  answer: Answer;
  /** The most requests that it was answering at the same time. */
  atOnceMax: number;
};

/** Answers with a status and a text. */
export function answerWith(
  status: number,
  text = "",
  headers: Record<string, string> = {},
): Answer {
  return (response) => response.writeHead(status, headers).end(text);
}

/** Starts a receiver; closed after the test. */
export async function startReceiver(t: TestContext): Promise<Receiver> {
  let atOnce = 0;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    atOnce++;
    receiver.atOnceMax = Math.max(receiver.atOnceMax, atOnce);
    response.once("close", () => atOnce--);
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const { url = "", headers } = request;
      const received = {
        path: url,
        headers,
        body: Buffer.concat(chunks),
        atMs: systemClock.monotonicMs(),
      };
      receiver.received.push(received);
      receiver.answer(response, received);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const receiver: Receiver = {
    url: `http://127.0.0.1:${port}`,
    received: [],
    answer: answerWith(200),
    atOnceMax: 0,
  };
  t.after(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  return receiver;
}

export type Stage = Accounts & {
  /** Webhooks of one more platform on the same database, started; stopped after the test. */
  open(options?: Partial<WebhooksOptions>): Promise<Webhooks>;
  /** One delivery of the project. */
  delivery(url: string, changes?: Partial<NewDelivery>): NewDelivery;
  /** Moves what waits for a retry into the present. */
  makeDue(): Promise<void>;
};

/** A project on a fresh database. */
export async function webhookStage(t: TestContext): Promise<Stage> {
  const accounts = await testAccounts(t);
  const { db, url: databaseUrl, sealer, projectId } = accounts;
  return {
    ...accounts,
    async open(options = {}) {
      const notifications = new Notifications({
        clock: systemClock,
        url: databaseUrl,
        log: silentLog,
      });
      await notifications.start();
      const guard = new OutwardGuard({ allow: ["127.0.0.0/8"] });
      const client = new OutwardClient({ guard, clock: systemClock, userAgent: "Slipway" });
      const webhooks = new Webhooks({
        db,
        sealer,
        notifications,
        ownerKeyOf: ownerKeys({ db, clock: systemClock }),
        client,
        clock: systemClock,
        log: silentLog,
        atOnce: 64,
        drainMs: 0,
        surveyMs: 200,
        instanceId: randomUUID(),
        onStep: () => undefined,
        ...options,
      });
      await webhooks.start();
      t.after(async () => {
        await webhooks.stop();
        client.close();
        await notifications.stop();
      });
      return webhooks;
    },
    delivery(url, changes = {}) {
      const body = changes.body ?? Buffer.from('{"result":"fine"}');
      return {
        projectId,
        appId: appIdOf(projectId, "hello"),
        runId: newRunId(),
        url,
        secret: null,
        statusCode: 200,
        contentType: "application/json",
        contentFields: null,
        body,
        bodyBytes: body.length,
        ...changes,
      };
    },
    async makeDue() {
      await db
        .updateTable("webhook_deliveries")
        .set({ due_at: new Date(0) })
        .where("state", "=", "pending")
        .where("lease_holder", "is", null)
        .execute();
    },
  };
}

/** Adds deliveries as whoever ends runs does it. */
export async function addAll(
  db: Db,
  { outbox }: Webhooks,
  deliveries: readonly NewDelivery[],
): Promise<readonly AddedDelivery[]> {
  const added = await db.transaction().execute((tx) => outbox.add(tx, deliveries));
  outbox.committed(added);
  return added;
}

/** The delivery once `condition` holds for it. */
export async function deliveryOnce(
  webhooks: Webhooks,
  place: { readonly projectId: ProjectId; readonly id: DeliveryId },
  condition: (delivery: DeliveryItem) => boolean,
): Promise<DeliveryItem> {
  let seen: DeliveryItem | undefined;
  await until("the delivery is as wanted", async () => {
    seen = (await webhooks.useCases.readDelivery(place.projectId, place.id)).delivery;
    return condition(seen);
  });
  assert.ok(seen);
  return seen;
}

/** How many deliveries there are in each state. */
export async function countStates(db: Db): Promise<Record<string, number>> {
  const rows = await db
    .selectFrom("webhook_deliveries")
    .select(["state", (make) => make.fn.countAll<number>().as("count")])
    .groupBy("state")
    .execute();
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]));
}

/** Throws unless the secret signed what was received. */
export function verify(secret: Secret, { headers, body }: Received): void {
  new Webhook(secret.reveal()).verify(body.toString(), headers as Record<string, string>);
}
