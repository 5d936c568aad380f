// The command line's `apps` and `logs` against a real management API.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AppId, ReplicaId } from "#lib/ids.ts";
import { startCommand } from "./support/command-line.ts";
import { startManagementApi, type ApiUnderTest } from "./support/management-api.ts";
import { until } from "./support/until.ts";

async function withApp(api: ApiUnderTest) {
  const body = { name: "my-app", gitRepo: "a/b" };
  const made = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, { body });
  const appId = made.body.appId as AppId;
  const of = { projectId: api.projectId, appId, replicaId: "my-app-one" as ReplicaId, runId: null };
  return async (text: string, stream: "stdout" | "stderr" = "stdout"): Promise<void> => {
    await api.appLogs.append([{ ...of, stream, at: Date.parse("2026-01-01T00:00:00Z"), text }]);
  };
}

test("apps are listed with their states", async (t) => {
  const api = await startManagementApi(t);
  const none = startCommand(t, api, ["apps"]);
  assert.equal((await none.ended).code, 0);
  assert.match(none.stderr(), /The project has no apps yet/);
  await withApp(api);
  const some = startCommand(t, api, ["apps"]);
  assert.equal((await some.ended).code, 0, some.stderr());
  assert.match(some.stdout(), /^NAME +STATE +CHANGED +WAITS FOR\nmy-app +\w+ +\d{4}-/);
});

test("the last lines of an app are shown, and followed", async (t) => {
  const api = await startManagementApi(t);
  const print = await withApp(api);
  for (const text of ["one", "\x1b[31mtwo", "three"]) await print(text);
  await print("an error", "stderr");
  const at = "2026-01-01T00:00:00.000Z";
  const last = startCommand(t, api, ["logs", "my-app", "-n", "3"]);
  assert.equal((await last.ended).code, 0, last.stderr());
  assert.equal(last.stdout(), `${at}  [31mtwo\n${at}  three\n${at}  an error\n`);
  const errors = startCommand(t, api, ["logs", "my-app", "--stderr", "--json"]);
  assert.equal((await errors.ended).code, 0, errors.stderr());
  assert.equal(JSON.parse(errors.stdout()).logLine, "an error");

  const following = startCommand(t, api, ["logs", "my-app", "-f", "-n", "1", "--search", "E"]);
  await until("it follows", () => following.stdout().includes("an error"));
  // It asks a moment after it has printed the last lines, and goes on after these.
  for (const text of ["four", "five", "nine"]) await print(text);
  await until("the last came", () => following.stdout().includes("nine"));
  assert.equal(following.stdout(), `${at}  an error\n${at}  five\n${at}  nine\n`);
  following.interrupt();
  assert.deepEqual([(await following.ended).code, following.stderr()], [130, ""]);

  for (const [words, message] of [
    [["logs"], /app is missing/],
    [["logs", "other"], /no app/i],
    [["logs", "my-app", "-n", "x"], /--lines is "x", but must be a whole number from 0 to 1000/],
  ] as const) {
    const refused = startCommand(t, api, words);
    assert.notEqual((await refused.ended).code, 0);
    assert.match(refused.stderr(), message);
  }
});
