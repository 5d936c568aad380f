// Live logs of apps and builds, and live roll-outs, have the same places: whoever holds connections
// open keeps nobody else out, and no database busy.
import assert from "node:assert/strict";
import { test } from "node:test";
import { startManagementApi } from "./support/management-api.ts";
import { insertRollOut } from "./support/roll-out-rows.ts";
import { until } from "./support/until.ts";

test("what one owner follows is bounded, whatever it is", async (t) => {
  const api = await startManagementApi(t);
  const left = new AbortController();
  t.after(() => left.abort());
  // What nobody refers to is closed.
  const open: Response[] = [];
  const follow = async (
    path: string,
    { token = api.token, signal = left.signal } = {},
  ): Promise<readonly [status: number, text: string]> => {
    const headers = { authorization: `Bearer ${token}`, accept: "text/event-stream" };
    const response = await fetch(api.baseUrl + path, { headers, signal });
    open.push(response);
    return [response.status, response.ok ? "" : await response.text()];
  };
  const streamsOf = async (projectId: typeof api.projectId, token: string) => {
    const project = `/v2/projects/${projectId}`;
    const create = async (name: string) => {
      const body = { name, gitRepo: "a/b" };
      return (await api.call("POST", `${project}/apps/git`, { body, token })).body;
    };
    const built = await create("built");
    const rolledOut = await create("rolled-out");
    await insertRollOut(api.db, rolledOut.appId);
    return [
      `${project}/apps/${built.appId}/builds/${built.buildId}/logs`,
      `${project}/apps/${rolledOut.appId}/rollout`,
      `${project}/apps/${built.appId}/logs`,
    ];
  };
  const mine = await streamsOf(api.projectId, api.token);
  const first = new AbortController();
  t.after(() => first.abort());
  const [build = ""] = mine;
  assert.deepEqual(await follow(build, { signal: first.signal }), [200, ""]);
  for (const [index, count] of [25, 15, 9].entries())
    for (let opened = 0; opened < count; opened++)
      assert.deepEqual(await follow(mine[index] ?? ""), [200, ""]);
  for (const path of mine) {
    const [status, text] = await follow(path);
    assert.equal(status, 429, path);
    assert.match(text, /at most 50 of one owner's projects, and 400 in total/);
    assert.equal((await api.call("GET", path)).status, 200, "not followed");
  }
  const projectId = await api.addProject("other");
  const token = await api.issue({ kind: "service_account", name: "other", projectId });
  for (const path of await streamsOf(projectId, token))
    assert.deepEqual(await follow(path, { token }), [200, ""], "another owner");
  first.abort();
  await until("a place is free again", async () => (await follow(build))[0] === 200);
});
