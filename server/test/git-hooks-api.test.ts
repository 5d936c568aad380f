// The hook address of an app as strangers and floods meet it: bounded bodies, bounded tries,
// bounded lists.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import { systemClock, type Clock } from "#lib/clock.ts";
import { newGitDeliveryId, type AppId } from "#lib/ids.ts";
import { addDelivery } from "#pushes/push-store.ts";
import { startManagementApi } from "./support/management-api.ts";
import { until } from "./support/until.ts";
import { giteaPush } from "./support/push-payloads.ts";
import { signed } from "./support/pushed-app.ts";

async function open(t: TestContext, clock: Clock = systemClock) {
  const api = await startManagementApi(t, { clock });
  const body = { name: "pushed", gitRepo: "acme/app" };
  const { appId } = (await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body }))
    .body as {
    appId: AppId;
  };
  const path = `/v2/projects/${api.projectId}/apps/${appId}`;
  const { url, secret } = (await api.call("POST", `${path}/git-hook`)).body as {
    url: string;
    secret: string;
  };
  const send = async (text: string, key = secret): Promise<number> => {
    const response = await fetch(url, { method: "POST", body: text, headers: signed(text, key) });
    await response.arrayBuffer();
    return response.status;
  };
  return { api, appId, path, url, secret, send };
}

test("an event may have 25 MB and no more, and its secret is stored sealed", async (t) => {
  const { api, secret, send } = await open(t);
  const push = JSON.stringify(giteaPush({ ref: "refs/tags/v1" }));
  const padded = (bytes: number): string => push + " ".repeat(bytes - push.length);
  assert.equal(await send(padded(26_214_400)), 200);
  assert.equal(await send(padded(26_214_401)), 413);
  const rows = await api.db.selectFrom("git_hooks").selectAll().execute();
  assert.equal(JSON.stringify(rows).includes(secret), false);
});

test("wrong signatures are kept up to a few a minute, then the client is refused unheard", async (t) => {
  const { api, path, url, send } = await open(t);
  const push = JSON.stringify(giteaPush());
  const statuses: number[] = [];
  for (let count = 0; count < 20; count++) statuses.push(await send(push, "wrong"));
  assert.deepEqual([...new Set(statuses)], [401]);
  const { items } = (await api.call("GET", `${path}/git-deliveries`)).body as {
    items: { verdict: string }[];
  };
  assert.deepEqual(
    items.map(({ verdict }) => verdict),
    Array.from({ length: 5 }, () => "refused"),
  );
  const unknown = url.replace(/.{32}$/, "x".repeat(32));
  const others: number[] = [];
  for (let count = 0; count < 31; count++)
    others.push((await fetch(unknown, { method: "POST", body: "{}" })).status);
  assert.deepEqual([others[0], others.at(-1)], [404, 429]);
  // Whoever knows no address does not silence the hooks of others behind the same client address.
  assert.equal(await send(push), 200);
  for (let count = 20; count < 30; count++) assert.equal(await send(push, "wrong"), 401);
  // Also with the right signature, from there and for a minute.
  assert.equal(await send(push), 429);
});

test("the list goes on page by page, and only the latest 200 are kept", async (t) => {
  const { api, appId, path } = await open(t);
  for (let number = 0; number < 205; number++) {
    const ignored = { verdict: "ignored", reason: `number ${number}`, event: "push" } as const;
    const delivery = { ...ignored, id: newGitDeliveryId(), app_id: appId };
    await api.db.transaction().execute((tx) => addDelivery(tx, delivery));
  }
  const reasons: string[] = [];
  for (let query = "?pageSize=150"; query !== "";) {
    const { body } = await api.call("GET", `${path}/git-deliveries${query}`);
    const page = body as { items: { reason: string }[]; nextToken?: string };
    reasons.push(...page.items.map(({ reason }) => reason));
    query = page.nextToken === undefined ? "" : `?pageSize=150&nextToken=${page.nextToken}`;
  }
  assert.deepEqual([reasons.length, reasons[0], reasons.at(-1)], [200, "number 204", "number 5"]);
  assert.equal((await api.call("GET", `${path}/git-deliveries?nextToken=abc`)).status, 400);
});

/** Begins a post and sends nothing more of its body. */
async function beginPost(
  t: TestContext,
  url: string,
  head: Readonly<Record<string, string>>,
): Promise<Socket> {
  const { hostname, port, pathname } = new URL(url);
  const socket = connect(Number(port), hostname);
  t.after(() => socket.destroy());
  await once(socket, "connect");
  const fields = Object.entries({ host: "a", "content-type": "application/json", ...head });
  socket.write(
    `POST ${pathname} HTTP/1.1\r\n${fields.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n{`,
  );
  return socket;
}

test("slow events of one's own hook, small or large, keep no push of others out", async (t) => {
  const { api, url, send } = await open(t);
  const other = await api.addProject("other");
  const token = await api.issue({ kind: "service_account", name: "other", projectId: other });
  const body = { name: "slow", gitRepo: "acme/app" };
  await api.call("POST", `/v2/projects/${other}/apps/git`, { body, token });
  const path = `/v2/projects/${other}/apps/${other}-slow/git-hook`;
  const slow = (await api.call("POST", path, { token })).body as { url: string };
  for (let count = 0; count < 8; count++)
    await beginPost(t, slow.url, { "content-length": "20000" });
  for (let count = 0; count < 4; count++)
    await beginPost(t, slow.url, { "content-length": "20000000" });
  await beginPost(t, slow.url, { "transfer-encoding": "chunked" });
  const push = JSON.stringify(giteaPush({ ref: "refs/tags/v1" }));
  assert.equal(await send(push), 200);
  assert.equal(await send(push + " ".repeat(2_000_000)), 200, "also a large one");
  // That of the owner itself waits behind the own ones.
  const large = await fetch(slow.url, {
    method: "POST",
    body: "x".repeat(1_100_000),
    signal: AbortSignal.timeout(30_000),
  });
  assert.equal(large.status, 429);
  assert.match(
    ((await large.json()) as { message: string }).message,
    /Too many requests for large push events at once/,
  );
  assert.ok(url !== slow.url);
});

/** A clock whose long waits end only when the test says so. */
function clockWithLate(): {
  readonly clock: Clock;
  readonly late: { readonly ms: number; readonly run: () => void }[];
} {
  const late: { readonly ms: number; readonly run: () => void }[] = [];
  const after: Clock["after"] = (ms, run) => {
    if (ms < 5_000) return systemClock.after(ms, run);
    const timer = { ms, run };
    late.push(timer);
    return () => {
      if (late.includes(timer)) late.splice(late.indexOf(timer), 1);
    };
  };
  return { clock: { ...systemClock, after }, late };
}

test(
  "a large event that takes longer than 30 s to arrive is refused, and its place is free",
  { timeout: 60_000 },
  async (t) => {
    const { clock, late } = clockWithLate();
    const { url, send } = await open(t, clock);
    const slow = await beginPost(t, url, { "content-length": "20000000" });
    let answer = "";
    slow.on("data", (chunk: Buffer) => (answer += chunk.toString()));
    const closed = once(slow, "close");
    await until("its place is taken", () => late.length === 1);
    assert.equal(late[0]?.ms, 30_000);
    // The owner's only place for large ones: this one waits for it.
    const push = JSON.stringify(giteaPush({ ref: "refs/tags/v1" }));
    const next = send(push + " ".repeat(2_000_000));
    await until("it waits", () => late.length === 2);
    late[0]?.run();
    await closed;
    assert.match(answer, /^HTTP\/1\.1 408 /);
    assert.match(answer, /"A push event of more than 1048576 bytes must arrive within 30 s\."/);
    assert.equal(await next, 200);
    await until("nothing is waited for any more", () => late.length === 0);
  },
);

test("nothing is waited for after a client that left while its event waited", async (t) => {
  const { clock, late } = clockWithLate();
  const { url, send } = await open(t, clock);
  const first = await beginPost(t, url, { "content-length": "20000000" });
  await until("the slot is taken", () => late.length === 1);
  const second = await beginPost(t, url, { "content-length": "20000000" });
  await until("the second event waits for it", () => late.length === 2);
  const push = JSON.stringify(giteaPush({ ref: "refs/tags/v1" }));
  second.destroy();
  // Once this is answered, the platform has also seen the second client leave.
  assert.equal(await send(push), 200);
  first.destroy();
  assert.equal(await send(push + " ".repeat(2_000_000)), 200, "the slot is free again");
  await until("no time limit is left", () => late.length === 0, { deadlineMs: 10_000 });
});
