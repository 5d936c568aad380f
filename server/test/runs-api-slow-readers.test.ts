// Results that nobody takes: so few of them are in memory, and the next one is read when one of them is gone.
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import type { AppId } from "#lib/ids.ts";
import { startManagementApi } from "./support/management-api.ts";
import { insertRun } from "./support/run-rows.ts";
import { until } from "./support/until.ts";

test("results that are not taken keep their turns, so that a project holds four of them at most", async (t) => {
  const api = await startManagementApi(t);
  const { projectId, db, token, baseUrl } = api;
  const made = await api.call("POST", `/v2/projects/${projectId}/apps/git`, {
    body: { name: "my-app", gitRepo: "acme/shop" },
  });
  const appId = made.body.appId as AppId;
  // Longer than what the buffers of a connection take.
  const body = Buffer.alloc(20_000_000, 120);
  const runId = await insertRun({ db, projectId, appId }, { state: "success", result: { body } });
  const answered = new Set<Socket>();
  const ask = (): Socket => {
    const socket = connect(Number(new URL(baseUrl).port), "127.0.0.1");
    socket.on("error", () => undefined);
    socket.once("data", () => {
      answered.add(socket);
      socket.pause();
    });
    const path = `/v2/projects/${projectId}/apps/${appId}/runs/${runId}/result`;
    socket.write(`GET ${path} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer ${token}\r\n\r\n`);
    return socket;
  };
  const sockets = Array.from({ length: 6 }, ask);
  t.after(() => {
    for (const socket of sockets) socket.destroy();
  });
  await until("four are being answered", () => answered.size >= 4);
  // Answered behind the fifth, were there a turn for that.
  assert.equal((await api.call("GET", `/v2/projects/${projectId}/apps/${appId}/runs/${runId}`)).status, 200);
  assert.equal(answered.size, 4);
  const [first] = answered;
  first?.destroy();
  await until("the next one is answered", () => answered.size === 5);
  for (const socket of sockets) if (socket !== first) socket.resume();
  await until("all are answered", () => answered.size === 6);
});
