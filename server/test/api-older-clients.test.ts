// What older clients of the published interface send beyond the document, row by row of the
// contract's table: taken, or refused where it contradicts the rest of the request. Their other
// requests stay as strict as everybody's.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test, type TestContext } from "node:test";
import { pino } from "pino";
import { runAndCallPage } from "@slipway/contract/answers.ts";
import { olderClients, olderPartBytes } from "@slipway/contract/older-clients.ts";
import { newRunId, type AppId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { startManagementApi, type ApiUnderTest, type Json } from "./support/management-api.ts";
import { insertCall, insertRun } from "./support/run-rows.ts";

type Stage = { readonly api: ApiUnderTest; readonly project: string; readonly app: string };

async function start(t: TestContext, log = silentLog): Promise<Stage> {
  const api = await startManagementApi(t, { log });
  const project = `/v2/projects/${api.projectId}`;
  const made = await api.call("POST", `${project}/apps/git`, {
    body: { name: "my-app", gitRepo: "acme/shop" },
  });
  assert.equal(made.status, 201);
  return { api, project, app: `${project}/apps/${api.projectId}-my-app` };
}

/** With a body that has no content type, as a text of `fetch` would have one. */
async function ask({ api }: Stage, method: string, path: string, body?: object) {
  const response = await fetch(api.baseUrl + path, {
    method,
    headers: { authorization: `Bearer ${api.token}`, "x-cli-version": "1.51.0", "x-source": "cli" },
    ...(body === undefined ? {} : { body: new TextEncoder().encode(JSON.stringify(body)) }),
  });
  assert.equal(response.headers.get("content-type")?.startsWith("application/json"), true, path);
  return { status: response.status, body: (await response.json()) as Json };
}

test("each request of the older client is taken as it sends it", async (t) => {
  const stage = await start(t);
  const { api, project, app } = stage;
  const own = `projectId=${api.projectId}`;
  const volume = `${project}/volumes/default`;
  const body = { projectId: api.projectId };
  const change = { cooldownPeriodSeconds: 20, minReplicaCount: 0 };
  const repeated = new URLSearchParams({
    cooldownPeriodSeconds: "20",
    minReplicaCount: "0",
    projectId: api.projectId,
  });
  const file = { file_path: "f.txt", part_count: 1, region: "us-east-1" };
  for (const [method, path, sent, status = 200] of [
    ["GET", `/v2/projects?${own}`],
    ["GET", `${project}/apps?${own}`],
    ["GET", `${app}?${own}`],
    ["GET", `${app}/runs?asyncOnly=true&${own}`],
    ["GET", `${app}/logs?direction=forward&${own}`],
    ["PATCH", `${app}?${repeated.toString()}`, { ...change, projectId: api.projectId }],
    ["GET", `${volume}/ls?region=us-east-1&region=us-east-1&dir=%2F&${own}`],
    ["POST", `${volume}/cp/initialize?region=us-east-1`, { ...file, projectId: api.projectId }],
    ["DELETE", `${volume}/rm?region=us-east-1&file_path=x&region=us-east-1&${own}`, body, 404],
    [
      "POST",
      `/v3/projects/${api.projectId}/apps/${api.projectId}-once/create-run-app?region=`,
      body,
    ],
    ["POST", `${project}/apps`, { name: "other", runtime: "cortex", projectId: api.projectId }],
    ["DELETE", `${app}?${own}`, body],
  ] as const) {
    const answer = await ask(stage, method, path, sent);
    assert.equal(answer.status, status, `${method} ${path}: ${JSON.stringify(answer.body)}`);
  }
});

test("what is ignored is noted in the platform's log, once for each path and name", async (t) => {
  const noted: string[] = [];
  const log = pino({}, { write: (line: string) => noted.push(line) });
  const stage = await start(t, log);
  const own = `projectId=${stage.api.projectId}`;
  for (const query of [own, own, `asyncOnly=true&${own}`])
    assert.equal((await ask(stage, "GET", `${stage.app}/runs?${query}`)).status, 200);
  const change = { cooldownPeriodSeconds: 20, projectId: stage.api.projectId };
  assert.equal((await ask(stage, "PATCH", stage.app, change)).status, 200);
  const notes = noted
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ msg }) => msg === "a client repeats a value, which is ignored")
    .map(({ path, name }) => [path, name]);
  assert.deepEqual(notes, [
    ["/v2/projects/{project_id}/apps/{app_id}/runs", "projectId"],
    ["/v2/projects/{project_id}/apps/{app_id}", "projectId"],
  ]);
});

test("what a request repeats must be the same, and the refusal names both values", async (t) => {
  const stage = await start(t);
  const { api, project, app } = stage;
  const foreign = "p-00000000";
  for (const [method, path, sent, expected] of [
    [
      "GET",
      `${app}/runs?projectId=${foreign}`,
      undefined,
      /projectId in the query.*p-00000000.*as in the path/,
    ],
    [
      "PATCH",
      app,
      { cooldownPeriodSeconds: 20, projectId: foreign },
      /projectId is "p-00000000".*as in the path/,
    ],
    [
      "PATCH",
      `${app}?cooldownPeriodSeconds=30`,
      { cooldownPeriodSeconds: 20 },
      /"30".*20, as in the body/,
    ],
    [
      "GET",
      `${project}/volumes/default/ls?region=a&region=b&dir=/`,
      undefined,
      /region is "b".*must be a/,
    ],
    ["GET", `${app}/runs?projectid=${api.projectId}`, undefined, /"projectid" is not a parameter/],
    ["PATCH", app, { cooldownPeriodSeconds: 20, project_id: api.projectId }, /project_id/],
  ] as const) {
    const answer = await ask(stage, method, path, sent);
    assert.equal(answer.status, 400, `${method} ${path}`);
    assert.match(answer.body.message, expected);
  }
  const unchanged = await api.call("GET", app);
  assert.equal(unchanged.body.cooldownPeriodSeconds, "10", "nothing was changed");
});

test("JSON without a content type is read only where the older client sends it", async (t) => {
  const stage = await start(t);
  const elsewhere = await ask(stage, "POST", "/v2/auth/sign-in", { email: "a@b.c", password: "x" });
  assert.equal(elsewhere.status, 415);
  const { api, project } = stage;
  const typed = await api.call("PATCH", `${project}/secrets`, {
    text: '{"A":"1"}',
    headers: { "content-type": "text/plain" },
  });
  assert.equal(typed.status, 415, "another type is not JSON");
});

test("the older client's list of runs says which are async, in the name that it reads", async (t) => {
  const { api, app } = await start(t);
  const place = { db: api.db, projectId: api.projectId, appId: `${api.projectId}-my-app` as AppId };
  const run = await insertRun(place, { state: "success" });
  const called = newRunId();
  await insertCall(place, { id: called, receivedAt: new Date() });
  const shown = await ask(
    { api, project: "", app },
    "GET",
    `${app}/runs?projectId=${api.projectId}`,
  );
  const items = runAndCallPage.parse(shown.body).items.toSorted((one) => (one.id === run ? -1 : 1));
  assert.deepEqual(
    items.map(({ id, isAsync }) => [id, isAsync]),
    [
      [run, true],
      [called, false],
    ],
  );
  const others = await api.call("GET", `${app}/runs`, { headers: { "x-cli-version": "2.1.4" } });
  assert.equal("isAsync" in others.body.items[0], false, "today's clients read async");
});

test("the older client signs in", async (t) => {
  const stage = await start(t);
  const begun = await ask(stage, "POST", "/device-authorization", {});
  assert.equal(begun.status, 200, JSON.stringify(begun.body));
  const { device_code } = begun.body.deviceAuthResponsePayload;
  const early = await ask(stage, "POST", "/token", { device_code });
  assert.equal(early.status, 400);
  assert.equal(early.body.error, "authorization_pending");
});

test("the older client uploads a large file to a folder that is not there", async (t) => {
  const stage = await start(t);
  const volume = `${stage.project}/volumes/default`;
  const absent = await ask(stage, "GET", `${volume}/ls?dir=new`);
  assert.deepEqual([absent.status, absent.body], [200, []]);
  const file = { file_path: "new/f.bin", part_count: 2 };
  const begun = await ask(stage, "POST", `${volume}/cp/initialize`, file);
  const content = Buffer.alloc(olderPartBytes + 6_000_000, "abcdefg");
  const put = async (number: number, bytes: Buffer): Promise<Response> => {
    const body = new Uint8Array(bytes);
    return await fetch(begun.body.parts[number - 1].url, { method: "PUT", body });
  };
  assert.equal(
    (await put(1, content.subarray(0, 6_000))).status,
    400,
    "only the last part may be smaller",
  );
  const sent = await Promise.all([
    put(1, content.subarray(0, olderPartBytes)),
    put(2, content.subarray(olderPartBytes)),
  ]);
  const parts = sent.map(({ headers }, index) => ({
    part_number: index + 1,
    etag: headers.get("etag"),
  }));
  const done = await ask(stage, "POST", `${volume}/cp/complete`, {
    file_path: file.file_path,
    upload_id: begun.body.upload_id,
    parts,
  });
  assert.equal(done.status, 200, JSON.stringify(done.body));
  const { body: listed } = await ask(stage, "GET", `${volume}/ls?dir=new`);
  assert.equal(listed[0].size_bytes, content.length);
  const { body: download } = await ask(stage, "GET", `${volume}/download?file_path=new/f.bin`);
  const stored = await fetch(download.url);
  assert.ok(Buffer.from(await stored.arrayBuffer()).equals(content));
});

test("docs/errors.md shows every row of the table", async () => {
  const page = await readFile(new URL("../../docs/errors.md", import.meta.url), "utf8");
  for (const { sent, on, taken } of olderClients) {
    assert.ok(page.includes(`| ${sent} | ${on} | ${taken} |`), sent);
  }
});
