// Logs over the wire: pages, filters, and a build's log followed live with resumption.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import * as answers from "@slipway/contract/answers.ts";
import type { AppId, BuildId, ReplicaId, RunId } from "#lib/ids.ts";
import { notify } from "#store/notify.ts";
import { type Json, startManagementApi, type ApiUnderTest } from "./support/management-api.ts";
import { until } from "./support/until.ts";

type Created = { readonly appId: AppId; readonly buildId: BuildId; readonly path: string };
type Event = { id: string; event: string; data: Json };

async function withBuild(api: ApiUnderTest): Promise<Created> {
  const { body } = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, {
    body: { name: "my-app", gitRepo: "a/b" },
  });
  return {
    ...body,
    path: `/v2/projects/${api.projectId}/apps/${body.appId}/builds/${body.buildId}/logs`,
  };
}

async function append(
  api: ApiUnderTest,
  buildId: BuildId,
  lines: readonly string[],
): Promise<void> {
  await api.buildLogs.append(
    buildId,
    lines.map((line) => ({ at: Date.now(), stage: "code", stream: "stdout" as const, line })),
  );
}

async function endBuild(api: ApiUnderTest, buildId: BuildId): Promise<void> {
  await api.db.transaction().execute(async (tx) => {
    await tx
      .updateTable("builds")
      .set({ status: "build_failure", reason: "It broke.", ended_at: new Date() })
      .where("id", "=", buildId)
      .execute();
    await notify(tx, "builds", buildId);
  });
}

/** A live log under test: what came so far, and how to leave. */
async function follow(api: ApiUnderTest, path: string, headers: Record<string, string> = {}) {
  const leaving = new AbortController();
  const response = await fetch(api.baseUrl + path, {
    headers: { authorization: `Bearer ${api.token}`, ...headers },
    signal: leaving.signal,
  });
  let text = "";
  let hasEnded = false;
  const reading = (async () => {
    for await (const chunk of response.body ?? [])
      text += Buffer.from(chunk as Uint8Array).toString();
    hasEnded = true;
  })().catch(() => undefined);
  const events = (): Event[] =>
    text
      .split("\n\n")
      .map((block) => {
        const get = (name: string): string =>
          new RegExp(`^${name}: (.*)$`, "m").exec(block)?.[1] ?? "";
        return { id: get("id"), event: get("event"), data: get("data") };
      })
      .filter(({ data }) => data !== "")
      .map((event) => ({ ...event, data: JSON.parse(event.data) }));
  const leave = async (): Promise<void> => {
    leaving.abort();
    await reading;
  };
  return { response, events, leave, text: () => text, hasEnded: () => hasEnded };
}

describe("the log of a build", () => {
  test("is read in pages, oldest line first", async (t) => {
    const api = await startManagementApi(t);
    const { buildId, path } = await withBuild(api);
    await append(api, buildId, ["one", "two", "three", "four", "five"]);
    const first = await api.call("GET", `${path}?pageSize=2`);
    answers.buildLogPage.parse(first.body);
    assert.deepEqual(
      first.body.logs.map((line: Json) => [line.lineNumber, line.log]),
      [
        [1, "one"],
        [2, "two"],
      ],
    );
    assert.deepEqual([first.body.hasMore, first.body.status], [true, "pending"]);
    const second = await api.call(
      "GET",
      `${path}?pageSize=3&nextToken=${first.body.nextPageToken}`,
    );
    answers.buildLogPage.parse(second.body);
    assert.deepEqual(
      second.body.logs.map((line: Json) => line.log),
      ["three", "four", "five"],
    );
    assert.equal(second.body.hasMore, false);
    assert.equal("nextPageToken" in second.body, false, "absent at the end");
    for (const query of [
      "pageSize=0",
      "pageSize=1001",
      "pageSize=x",
      "nextToken=x",
      "follow=maybe",
      "page=1",
      "pageSize=1&pageSize=2",
    ]) {
      const refused = await api.call("GET", `${path}?${query}`);
      assert.equal(refused.status, 400, query);
      assert.match(refused.body.message, new RegExp(query.split("=")[0] ?? ""));
    }
  });

  test("is followed no longer by a token that was revoked", async (t) => {
    const api = await startManagementApi(t);
    const { buildId, path } = await withBuild(api);
    const accounts = `/v2/projects/${api.projectId}/service-accounts`;
    const { token, id } = (
      await api.call("POST", accounts, { body: { name: "reader", role: "member" } })
    ).body;
    await append(api, buildId, ["before"]);
    const live = await follow(api, `${path}?follow=true`, { authorization: `Bearer ${token}` });
    await until("the first line came", () => live.events().length === 1);
    await api.call("DELETE", `${accounts}/${id}`);
    await until(
      "the token has ended",
      async () => (await api.call("GET", path, { token })).status === 401,
    );
    await append(api, buildId, ["a secret of later"]);
    await until("the stream ended", () => live.hasEnded());
    assert.ok(!live.text().includes("a secret of later"));
  });

  for (const [how, query, headers] of [
    ["follow=true", "?follow=true", {}],
    ["the header Accept", "", { accept: "text/event-stream" }],
  ] as const) {
    test(`is followed live with ${how}, and ends with the build`, async (t) => {
      const api = await startManagementApi(t);
      const { buildId, path } = await withBuild(api);
      await append(api, buildId, ["before"]);
      const live = await follow(api, path + query, headers);
      assert.equal(live.response.status, 200);
      assert.match(live.response.headers.get("content-type") ?? "", /^text\/event-stream/);
      assert.ok(live.response.headers.get("x-request-id"));
      await until("the first line came", () => live.events().length === 1);
      await append(api, buildId, ["after, with ünï and \r\n a break"]);
      await until("the second line came", () => live.events().length === 2);
      assert.equal(live.hasEnded(), false);
      await append(api, buildId, ["last"]);
      await api.buildLogs.flush();
      await endBuild(api, buildId);
      await until("the stream ended", () => live.hasEnded());
      const events = live.events();
      assert.deepEqual(
        events.map(({ id, event }) => [id, event]),
        [
          ["1", ""],
          ["2", ""],
          ["3", ""],
          ["", "end"],
        ],
      );
      answers.buildLogLine.parse(events[0]?.data);
      assert.deepEqual(events.at(-1)?.data, { status: "build_failure", reason: "It broke." });
    });
  }

  test("goes on after the last line that a client saw", async (t) => {
    const api = await startManagementApi(t);
    const { buildId, path } = await withBuild(api);
    await append(api, buildId, ["one", "two", "three"]);
    const live = await follow(api, `${path}?follow=true`, { "last-event-id": "2" });
    await until("the third line came", () => live.events().length === 1);
    assert.equal(live.events()[0]?.data.log, "three");
    await live.leave();
    await endBuild(api, buildId);
    const late = await follow(api, `${path}?follow=true`, { "last-event-id": "3" });
    await until("the stream ended", () => late.hasEnded());
    assert.deepEqual(
      late.events().map(({ event }) => event),
      ["end"],
    );
    const bad = await api.call("GET", `${path}?follow=true`, { headers: { "last-event-id": "x" } });
    assert.equal(bad.status, 400);
  });

  test("ends when the platform begins to stop, without an end event: the client may come back", async (t) => {
    const stopping = new AbortController();
    const api = await startManagementApi(t, { stopping: stopping.signal });
    const { buildId, path } = await withBuild(api);
    await append(api, buildId, ["one"]);
    const live = await follow(api, `${path}?follow=true`);
    await until("the first line came", () => live.events().length === 1);
    stopping.abort();
    await until("the stream ended", () => live.hasEnded());
    assert.deepEqual(
      live.events().map(({ event }) => event),
      [""],
    );
  });

  test("is refused as JSON when it cannot be followed", async (t) => {
    const api = await startManagementApi(t);
    const { path } = await withBuild(api);
    const unknown = path.replace(/builds\/[^/]+/, "builds/00000000-0000-4000-8000-000000000000");
    assert.equal((await api.call("GET", `${unknown}?follow=true`)).status, 404);
    assert.equal((await api.call("GET", `${path}?follow=true`, { token: null })).status, 401);
    assert.equal((await api.call("HEAD", `${path}?follow=true`)).status, 200);
  });
});

test("the log of an app is filtered, searched and paged both ways", async (t) => {
  const api = await startManagementApi(t);
  const { appId } = await withBuild(api);
  const path = `/v2/projects/${api.projectId}/apps/${appId}/logs`;
  const run = "11111111-1111-4111-8111-111111111111" as RunId;
  const start = Date.parse("2026-01-01T00:00:00Z");
  const line = (index: number, text: string, more: object = {}) => ({
    projectId: api.projectId,
    appId,
    replicaId: "my-app-one" as ReplicaId,
    runId: null,
    stream: "stdout" as const,
    at: start + index * 1000,
    text,
    ...more,
  });
  await api.appLogs.append([
    line(0, "hello"),
    line(1, "World", { runId: run }),
    line(2, "an error", { stream: "stderr" }),
    line(3, "hello again", { replicaId: "my-app-two" as ReplicaId }),
  ]);
  const read = async (query: string): Promise<string[]> => {
    const answer = await api.call("GET", `${path}${query}`);
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    answers.appLogPage.parse(answer.body);
    return answer.body.logs.map((one: { logLine: string }) => one.logLine);
  };
  assert.deepEqual(await read(""), ["hello", "World", "an error", "hello again"]);
  assert.deepEqual(await read("?direction=backward"), [
    "hello again",
    "an error",
    "World",
    "hello",
  ]);
  assert.deepEqual(await read("?container=my-app-two"), ["hello again"]);
  assert.deepEqual(await read("?stream=stderr"), ["an error"]);
  assert.deepEqual(await read("?search=WORLD"), ["World"]);
  assert.deepEqual(await read(`?runId=${run}`), ["World"]);
  assert.deepEqual(await read("?search=%25"), [], "a percent sign is only a percent sign");
  assert.deepEqual(await read("?afterDate=2026-01-01T00:00:01Z&beforeDate=2026-01-01T00:00:03Z"), [
    "World",
    "an error",
  ]);
  assert.deepEqual(
    await read("?stream=&search="),
    ["hello", "World", "an error", "hello again"],
    "empty is absent",
  );
  const first = await api.call("GET", `${path}?pageSize=3`);
  assert.equal(first.body.hasMore, true);
  assert.deepEqual(await read(`?pageSize=3&nextToken=${first.body.nextPageToken}`), [
    "hello again",
  ]);
  for (const query of [
    "afterDate=yesterday",
    "afterDate=2026-13-01T00:00:00Z",
    "direction=up",
    "stream=stdin",
    "runId=x",
    "serach=x",
    "pageSize=-1",
  ]) {
    const refused = await api.call("GET", `${path}?${query}`);
    assert.equal(refused.status, 400, query);
    assert.match(refused.body.message, new RegExp(query.split("=")[0] ?? ""));
  }
});

test("the log of an app is followed live, filtered, from now on or after a line", async (t) => {
  const api = await startManagementApi(t);
  const { appId } = await withBuild(api);
  const app = `/v2/projects/${api.projectId}/apps/${appId}`;
  const path = `${app}/logs`;
  const print = async (text: string, stream: "stdout" | "stderr" = "stdout"): Promise<void> => {
    const of = {
      projectId: api.projectId,
      appId,
      replicaId: "my-app-one" as ReplicaId,
      runId: null,
    };
    await api.appLogs.append([{ ...of, stream, at: Date.now(), text }]);
  };
  await print("before");
  const live = await follow(api, `${path}?follow=true&stream=stdout`);
  assert.match(live.response.headers.get("content-type") ?? "", /^text\/event-stream/);
  for (const [text, stream] of [["one"], ["an error", "stderr"], ["two"]] as const)
    await print(text, stream);
  await until("both came", () => live.events().length === 2);
  const seen = live.events();
  assert.deepEqual(
    seen.map(({ data }) => data.logLine),
    ["one", "two"],
  );
  answers.appLogPage.parse({ logs: seen.map(({ data }) => data), hasMore: false });
  await live.leave();
  const resumed = await follow(api, path, {
    accept: "text/event-stream",
    "last-event-id": seen[0]?.id ?? "",
  });
  await until("what came after it", () => resumed.events().length === 2);
  assert.deepEqual(
    resumed.events().map(({ data }) => data.logLine),
    ["an error", "two"],
  );
  for (const [query, reason] of [
    ["afterDate=2026-01-01T00:00:00Z", /^afterDate is for pages: leave it out with follow/],
    ["direction=backward", /^direction is backward, but must be forward with follow/],
  ] as const) {
    const refused = await api.call("GET", `${path}?follow=true&${query}`);
    assert.deepEqual(
      [refused.status, reason.test(refused.body.message)],
      [400, true],
      refused.body.message,
    );
  }
  assert.equal((await api.call("GET", `${app}x/logs?follow=true`)).status, 404);
  const others = await Promise.all(
    Array.from({ length: 49 }, () => follow(api, `${path}?follow=true`)),
  );
  const refused = await api.call("GET", `${path}?follow=true`);
  assert.deepEqual([refused.status, /followed at once/.test(refused.body.message)], [429, true]);
  await others[0]?.leave();
  await until("one may follow again", async () => {
    const again = await follow(api, `${path}?follow=true`);
    await again.leave();
    return again.response.status === 200;
  });
  for (const one of [resumed, ...others]) await one.leave();
});
