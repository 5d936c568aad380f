// A platform that is killed while it sends entries of the audit log on: the next start goes on, and
// the receiver has every entry of the chain in order, some of them twice and then in the same
// message.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Webhook } from "standardwebhooks";
import type { EntryLine } from "#audit/export/export-format.ts";
import type { Json } from "./support/management-api.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";
import { startReceiver, type Receiver } from "./webhooks-stage.ts";

const operatorSecret = `whsec_${Buffer.alloc(32, 5).toString("base64")}`;

async function change(platform: PlatformProcess, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    const answer = await platform.api(
      "PATCH",
      `/v2/projects/${platform.bootstrap.projectId}/secrets`,
      {
        COUNT: String(Math.random()),
      },
    );
    assert.equal(answer.status, 200);
  }
}

/** Entries of the project that have come, a message that came again counted once. */
function cameOf({ received }: Receiver, projectId: string): EntryLine[] {
  const messages = new Map<string, string>();
  for (const { headers, body } of received) {
    const id = String(headers["webhook-id"]);
    const text = body.toString();
    if (JSON.parse(text).data.project !== projectId) continue;
    assert.equal(messages.get(id) ?? text, text, "what comes again is the same");
    messages.set(id, text);
  }
  return [...messages.values()].flatMap((text): EntryLine[] => JSON.parse(text).data.entries);
}

test("kills in the midst of sending lose nothing and keep the order, for a project's receiver and the operator's", async (t) => {
  const [owners, operators] = await Promise.all([startReceiver(t), startReceiver(t)]);
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_WEBHOOK_ALLOW: "127.0.0.0/8",
    SLIPWAY_AUDIT_FORWARD_URL: `${operators.url}/all`,
    SLIPWAY_AUDIT_FORWARD_SECRET: operatorSecret,
    SLIPWAY_DRAIN_SECONDS: "0",
  });
  const { projectId } = platform.bootstrap;
  const path = `/v2/projects/${projectId}/audit-log`;
  const set = await platform.api("PUT", `${path}/forwarding`, { url: `${owners.url}/own` });
  assert.equal(set.status, 200, JSON.stringify(set.body));
  for (const receiver of [owners, operators, owners]) {
    // Taken, but never said so: the platform cannot know.
    let isHeld = false;
    receiver.answer = () => void (isHeld = true);
    await change(platform, 5);
    await until("a batch is under way", () => isHeld, { deadlineMs: 60_000 });
    await platform.end("SIGKILL");
    receiver.answer = (response) => response.writeHead(204).end();
    await platform.restart();
  }
  await change(platform, 5);
  const text = await exportOf(platform, path);
  const chain = text.filter(({ kind }) => kind === "entry") as unknown as EntryLine[];
  const last = chain.at(-1)?.number ?? 0;
  for (const receiver of [owners, operators]) {
    await until("all has come", () => (cameOf(receiver, projectId).at(-1)?.number ?? 0) >= last, {
      deadlineMs: 30_000,
    });
    // What was recorded behind the export may have come too: from where the owner's token is used,
    // written down later.
    const came = cameOf(receiver, projectId).filter(({ number }) => number <= last);
    const begin = came[0]?.number ?? 0;
    assert.deepEqual(
      came,
      chain.filter(({ number }) => number >= begin),
    );
  }
  assert.equal(cameOf(owners, projectId)[0]?.entry.action, "audit_log.forwarding_set");
  assert.ok(cameOf(owners, projectId).length >= 21);
  for (const [receiver, secret] of [
    [owners, String(set.body.secret)],
    [operators, operatorSecret],
  ] as const) {
    for (const { headers, body } of receiver.received) {
      new Webhook(secret).verify(body.toString(), headers as Record<string, string>);
    }
  }
  assert.doesNotMatch(platform.output(), /whsec_/);
});

async function exportOf({ bootstrap }: PlatformProcess, path: string): Promise<Json[]> {
  const headers = { authorization: `Bearer ${bootstrap.serviceAccountToken}` };
  const response = await fetch(`${bootstrap.baseUrl}${path}/export`, { headers });
  return (await response.text())
    .trimEnd()
    .split("\n")
    .map((line): Json => JSON.parse(line));
}
