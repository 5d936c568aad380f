// What a release is made of and how long it can be started again: builds of commits and branches, pushes that follow each
// other, and artifacts that are used again or removed. Real git, real artifacts; only the trial is played.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import type { NewBuild } from "#apps/build-receiver.ts";
import { receiveBuild } from "#deploy/receive.ts";
import { buildInState, createApp, playedTrial, startQueue } from "#test/support/build-queue.ts";
import { testDatabase } from "#test/support/database.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";

const by = { type: "person", id: "some-id", name: "Ada" } as const;
const good = { ok: true } as const;

async function stage(t: TestContext) {
  const database = await testDatabase(t);
  const server = await startGitServer(t);
  const folder = temporaryFolder(t, "releases");
  const first = await server.createRepo("acme", "app", { "main.py": "def run(): return 1\n" });
  const app = await createApp(database.db);
  const start = (trial = playedTrial(() => good)) =>
    startQueue(t, { ...database, folder, urlTemplate: server.urlTemplate, trial });
  const receive = (wish: Partial<NewBuild> = {}) =>
    database.db.transaction().execute((tx) => receiveBuild(tx, { ...app, cause: "deploy", by, ...wish }));
  const releases = () => database.db.selectFrom("releases").selectAll().orderBy("number").execute();
  return { ...database, server, folder, first, app, start, receive, releases };
}

test("a commit or the head of a branch is built once, and releases say what they were made of and by whom", async (t) => {
  const { db, server, first, start, receive, releases } = await stage(t);
  const side = await server.push("acme", "app", { "main.py": "def run(): return 2\n" }, "side");
  const head = await server.push("acme", "app", { "main.py": "def run(): return 3\n" });
  await start();
  const wishes = [{}, { branch: "side" }, { commit: first }] as const;
  for (const wish of wishes) await buildInState(db, (await receive(wish)).buildId, ["success"]);
  const facts = { cause: "deploy", commit_message: "A change", commit_author: "Test <test@example.com>" };
  const shown = (await releases()).map((release) => ({
    ...{ number: release.number, commit: release.commit_sha, branch: release.branch, state: release.state },
    ...{ cause: release.cause, commit_message: release.commit_message, commit_author: release.commit_author },
    by: release.created_by,
    ownBranch: (release.settings as { gitBranch: string }).gitBranch,
  }));
  const common = { ...facts, by, ownBranch: "main" };
  assert.deepEqual(shown, [
    { ...common, number: 1, commit: head, branch: "main", state: "replaced" },
    { ...common, number: 2, commit: side, branch: "side", state: "replaced" },
    { ...common, number: 3, commit: first, branch: null, state: "live" },
  ]);
});

test("a push ends the waiting builds of earlier pushes, a running one when told so, and none that a person asked for", async (t) => {
  const { db, start, receive, releases } = await stage(t);
  const [pushed, asked] = [await receive({ cause: "push" }), await receive()];
  const next = await receive({ cause: "push", message: "Two\0", author: "Ada" });
  const { row } = await buildInState(db, pushed.buildId, ["cancelled"]);
  assert.equal(row.reason, "Build 3 of a newer commit took its place.");
  const trial = playedTrial(([{ buildId }]) => (buildId === next.buildId ? new Promise(() => undefined) : good));
  await start(trial);
  await buildInState(db, asked.buildId, ["success"]);
  await buildInState(db, next.buildId, ["initializing"]);
  const patient = await receive({ cause: "push" });
  const eager = await receive({ cause: "push", isRunningSuperseded: true });
  const running = await buildInState(db, next.buildId, ["cancelled"]);
  assert.equal(running.row.reason, "Build 5 of a newer commit took its place.");
  assert.ok(running.log.includes(running.row.reason));
  assert.equal((await buildInState(db, patient.buildId, ["cancelled"])).row.reason, running.row.reason);
  await buildInState(db, eager.buildId, ["success"]);
  const states = (await releases()).map(({ state, end_reason }) => [state, end_reason]);
  const replaced = ["replaced", "A newer release took its place."];
  assert.deepEqual(states, [replaced, ["failed", running.row.reason], ["live", null]]);
});
