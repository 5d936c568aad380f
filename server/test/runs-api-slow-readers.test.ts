// Results that nobody takes: so few of them are in memory, and the next one is read when one of
// them is gone.
import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import type { AppId, ProjectId } from "#lib/ids.ts";
import { startManagementApi, type ApiUnderTest } from "./support/management-api.ts";
import { insertRun } from "./support/run-rows.ts";
import { until } from "./support/until.ts";

/**
 * A run whose result is longer than what the buffers of a connection take; returns the path of the
 * result.
 */
async function addResult(api: ApiUnderTest, projectId: ProjectId, token: string): Promise<string> {
  const body = { name: "my-app", gitRepo: "acme/shop" };
  const made = await api.call("POST", `/v2/projects/${projectId}/apps/git`, { body, token });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const appId = made.body.appId as AppId;
  const result = { body: Buffer.alloc(20_000_000, 120), contentType: "text/plain" };
  const runId = await insertRun({ db: api.db, projectId, appId }, { state: "success", result });
  return `/v2/projects/${projectId}/apps/${appId}/runs/${runId}/result`;
}

test("results that are not taken keep their turns, so that a project holds four of them at most", async (t) => {
  const api = await startManagementApi(t);
  const { projectId, token, baseUrl } = api;
  const resultPath = await addResult(api, projectId, token);
  const otherId = await api.addProject("second");
  const otherToken = await api.issue({ kind: "service_account", projectId: otherId });
  const otherPath = await addResult(api, otherId, otherToken);
  const answered = new Set<Socket>();
  const ask = (): Socket => {
    const socket = connect(Number(new URL(baseUrl).port), "127.0.0.1");
    socket.on("error", () => undefined);
    socket.once("data", () => {
      answered.add(socket);
      socket.pause();
    });
    socket.write(
      `GET ${resultPath} HTTP/1.1\r\nHost: test\r\nAuthorization: Bearer ${token}\r\n\r\n`,
    );
    return socket;
  };
  const sockets = Array.from({ length: 6 }, ask);
  t.after(() => {
    for (const socket of sockets) socket.destroy();
  });
  await until("four are being answered", () => answered.size >= 4);
  // Each takes as long as the fifth would, were it its turn.
  for (let count = 0; count < 3; count++) {
    assert.equal(
      (await api.call("GET", otherPath, { token: otherToken })).status,
      200,
      "others have turns of their own",
    );
  }
  assert.equal(answered.size, 4);
  const [first] = answered;
  first?.destroy();
  await until("the next one is answered", () => answered.size === 5);
  for (const socket of sockets) if (socket !== first) socket.resume();
  await until("all are answered", () => answered.size === 6);
});
