// What the dashboard's script does with a live log, run here against the real API: it shows events
// as they come and goes on where it was after the connection broke.
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { notify } from "#store/notify.ts";
import { startManagementApi, type Json } from "./support/management-api.ts";
import { until } from "./support/until.ts";

test("a live log goes on after a broken connection, with no line twice and none missing, and ends with the build", async (t) => {
  const api = await startManagementApi(t);
  const created = (
    await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, {
      body: { name: "my-app", gitRepo: "a/b" },
    })
  ).body;
  const between = await breakableWay(t, api.baseUrl);
  const page = await loadScript(t, between.url, api.token);
  const lines: string[] = [];
  const leaving = new AbortController();
  const following = page.follow(
    `/v2/projects/${api.projectId}/apps/${created.appId}/builds/${created.buildId}/logs?follow=true`,
    {
      signal: leaving.signal,
      onEvent: ({ event, data }: { event: string; data: string }) => {
        const value: Json = JSON.parse(data);
        lines.push(event === "end" ? `end: ${value.status}` : value.log);
      },
    },
  );
  const say = (line: string): Promise<void> =>
    api.buildLogs.append(created.buildId, [
      { at: Date.now(), stage: "code", stream: "stdout", line },
    ]);
  await say("one");
  await until("the first line came", () => lines.length === 1);
  between.breakAll();
  await say("two");
  await until("the second line came", () => lines.length === 2);
  await api.db.transaction().execute(async (tx) => {
    await tx
      .updateTable("builds")
      .set({ status: "cancelled", ended_at: new Date() })
      .where("id", "=", created.buildId)
      .execute();
    await notify(tx, "builds", created.buildId);
  });
  await following;
  assert.deepEqual(lines, ["one", "two", "end: cancelled"]);
});

test("a refusal is told with the API's own message", async (t) => {
  const api = await startManagementApi(t);
  const page = await loadScript(t, api.baseUrl, "nonsense");
  const signal = new AbortController().signal;
  const asked = page.ask(page.api.GET("/v2/projects", { signal }));
  await assert.rejects(asked, { status: 401, message: /^The token is invalid/ });
  await assert.rejects(page.follow("/v2/projects", { signal, onEvent: () => undefined }), {
    status: 401,
  });
});

type WithAfter = { after(run: () => void): void };

/**
 * The module as a browser has it: the page has an address, and the token is in the tab's storage.
 */
async function loadScript(t: WithAfter, baseUrl: string, token: string): Promise<Json> {
  for (const [name, value] of Object.entries({
    location: { origin: baseUrl },
    sessionStorage: { getItem: () => token },
  })) {
    const before = Object.getOwnPropertyDescriptor(globalThis, name);
    Object.defineProperty(globalThis, name, { configurable: true, value });
    t.after(() =>
      Object.defineProperty(globalThis, name, before ?? { configurable: true, value: undefined }),
    );
  }
  // Each test has its own page, at another address.
  return await import(
    new URL(`../../dashboard/src/api.ts?${encodeURIComponent(baseUrl)}`, import.meta.url).href
  );
}

/** A way to the API whose connections the test can cut. */
async function breakableWay(
  t: WithAfter,
  target: string,
): Promise<{ url: string; breakAll: () => void }> {
  const sockets = new Set<Socket>();
  const server = createServer((from) => {
    const to = connect(Number(new URL(target).port), "127.0.0.1");
    for (const [socket, other] of [
      [from, to],
      [to, from],
    ] as const) {
      sockets.add(socket);
      socket.on("error", () => other.destroy());
      socket.on("close", () => other.destroy());
      socket.pipe(other);
    }
  });
  const breakAll = (): void => sockets.forEach((socket) => socket.destroy());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    breakAll();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, breakAll };
}
