// The commands on apps and what is theirs against a real management API: each in its good form and
// refused, as tables for people and as JSON for programs.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { sql } from "kysely";
import { callRecordWriter } from "#runs/call-record-store.ts";
import { startCliStage } from "./support/cli-stage.ts";
import { startCommand, type Shell } from "./support/command-line.ts";
import { temporaryFolder } from "./support/folder.ts";
import { insertReleases } from "./support/release-rows.ts";
import { insertRollOut } from "./support/roll-out-rows.ts";
import { insertRun } from "./support/run-rows.ts";

const nobody = "00000000-0000-4000-8000-000000000000";
const onTerminal = (columns: number): Shell => ({ columns });

test("apps are shown, scaled, set, stopped, started and deleted", async (t) => {
  const { done, refused, slipway, db, appId } = await startCliStage(t);
  assert.match(
    (await done("apps")).stdout,
    /^NAME +STATE +CHANGED +WAITS FOR\nhello +\w+ +\d{4}-\d\d-\d\dT/,
  );
  assert.deepEqual(
    (await done("apps", "--json")).json().map(({ name }: { name: string }) => name),
    ["hello"],
  );
  const shown = await done("apps", "show", "hello");
  assert.match(shown.stdout, /^Name +hello\nId +p-[0-9a-f]+-hello\n/);
  assert.match(shown.stdout, /^maxReplicaCount +1 +default/m);
  assert.equal((await done("apps", "show", appId, "--json")).json().name, "hello");

  const scaled = await done(
    "apps",
    "scale",
    "hello",
    "--min",
    "1",
    "--max",
    "3",
    "scalingTarget=70",
  );
  assert.match(
    scaled.stderr,
    /^maxReplicaCount, minReplicaCount, scalingTarget are changed; this starts nothing/,
  );
  const dry = (await done("apps", "scale", "hello", "--min", "0", "--dry-run", "--json")).json();
  assert.deepEqual([dry.isDryRun, dry.changed], [true, ["minReplicaCount"]]);
  await done("apps", "set", "hello", "disableAuth=true", "gitBranch=next");
  const { settings } = (await done("apps", "show", "hello", "--json")).json();
  assert.deepEqual(
    [settings.minReplicaCount.value, settings.maxReplicaCount.value, settings.disableAuth.value],
    [1, 3, true],
  );
  assert.match(await refused(2, "apps", "scale", "hello"), /^There is nothing to change/);
  assert.match(
    await refused(2, "apps", "set", "hello", "maxReplicas=3"),
    /"maxReplicas" is not a setting that can be changed. Did you mean max_replicas\?/,
  );
  await done("apps", "set", "hello", "cooldown=31", "Replica_Concurrency=7", "--yes");
  const byEitherName = (await done("apps", "show", "hello", "--json")).json().settings;
  assert.deepEqual(
    [byEitherName.cooldownPeriodSeconds.value, byEitherName.replicaConcurrency.value],
    [31, 7],
  );
  assert.match(await refused(2, "apps", "set", "hello", "cooldwn=3"), /Did you mean cooldown\?/);
  assert.match(
    await refused(2, "apps", "set", "hello", "cors=x"),
    /Did you mean corsC\w+ or corsHeaders or corsOrigins\?/,
  );
  assert.match(
    await refused(2, "apps", "scale", "hello", "--max", "many"),
    /maxReplicaCount is "many".*whole number/,
  );
  assert.match(
    await refused(2, "apps", "set", "hello", "memory"),
    /"memory" must be of the form setting=value/,
  );

  assert.match(
    (await done("status")).stdout,
    /^http\S+, project \S+ \(p-[0-9a-f]+\)\n\nAPP +STATE +REPLICAS +CHANGED\nhello +\w+ +0 +\S+\n/,
  );
  assert.equal((await done("status", "--json")).json().apps[0].name, "hello");
  assert.match(
    (await done("apps", "stop", "hello")).stderr,
    /To start it again: slipway apps start hello/,
  );
  assert.match(await refused(1, "apps", "stop", "hello"), /To start it: slipway apps start hello/);
  await done("apps", "start", "hello");
  assert.match(await refused(1, "apps", "start", "hello"), /slipway apps show hello/);
  assert.match(await refused(1, "apps", "restart", "hello"), /slipway apps show hello/);
  await insertReleases(db, appId);
  await done("apps", "restart", "hello", "--yes");
  assert.match(await refused(1, "apps", "resume-deploys", "hello"), /nothing to resume/);

  assert.match(
    await refused(2, "apps", "delete", "..", "--yes"),
    /^"\.\." is not a name or an id\./,
  );
  assert.match(
    await refused(4, "apps", "show", "helo"),
    /^The project has no app "helo"\. Did you mean hello\?/,
  );
  assert.match(
    await refused(4, "logs", "unlike"),
    /^The project has no app "unlike"\. To list its apps: slipway apps\n/,
  );
  assert.match(
    await refused(2, "apps", "delete", "hello"),
    /There is no terminal to ask on: add --yes/,
  );
  assert.match(
    (await slipway(["apps", "delete", "hello", "--yes", "--json"])).json().message,
    /\w/,
  );
  assert.match((await done("apps")).stderr, /The project has no apps yet/);
});

test("builds, releases, roll-outs and replicas of an app are listed, shown and changed", async (t) => {
  const { done, refused, db, appId } = await startCliStage(t);
  const list = await done("builds", "list", "hello");
  assert.match(list.stdout, /^BUILD +STATE +CAUSE .*\n +1 +pending +create /);
  const id: string = (await done("builds", "show", "hello", "--json")).json().id;
  assert.match(
    (await done("builds", "show", "hello", "1")).stdout,
    new RegExp(`^Build +1\nId +${id}\n`),
  );
  assert.equal((await done("builds", "show", "hello", id, "--json")).json().number, 1);
  assert.match(
    await refused(4, "builds", "show", "hello", "9"),
    /no build "9".*slipway builds list hello/,
  );
  assert.match((await done("builds", "cancel", "hello")).stderr, /^Build 1 is cancelled\./);
  assert.match(
    (await done("status")).stdout,
    /  hello: No build has succeeded\. To see why: slipway builds show hello\n/,
  );
  assert.match(await refused(1, "builds", "cancel", "hello"), /\w/);
  assert.match(
    (await done("builds", "again", "hello", "1")).stderr,
    /slipway logs hello --build latest -f/,
  );
  await done("builds", "cancel", "hello", "2");
  assert.equal(
    (await done("builds", "start", "hello", "--branch", "next", "--json")).json().status,
    "pending",
  );
  await done("builds", "cancel", "hello", "latest");
  assert.match(
    await refused(2, "builds", "start", "hello", "--commit", "abc"),
    /commit is "abc".*first 7 digits/,
  );

  await insertReleases(db, appId);
  assert.match(
    (await done("releases", "list", "hello")).stdout,
    /^RELEASE +STATE +CALLS % +NOW %.*\nv2 +live +100 +- .*\nv1 +replaced/,
  );
  assert.match(
    (await done("releases", "show", "hello", "v1")).stdout,
    /^Release +v1\nState +replaced\n/,
  );
  assert.match(await refused(4, "releases", "show", "hello", "7"), /slipway releases list hello/);
  assert.match(
    await refused(2, "releases", "show", "hello", "seven"),
    /must be a number such as 3 or v3/,
  );
  assert.match(
    (await done("rollback", "hello", "1")).stderr,
    /^Release v1 of hello is live again\. No replica .*\n$/,
  );
  await db
    .updateTable("releases")
    .set({ commit_sha: "c".repeat(40) })
    .where("app_id", "=", appId)
    .execute();
  assert.match(
    (await done("rollback", "hello", "v2")).stderr,
    /^Release v2 of hello is live again\. No replica .*\nPushes are not deployed for now\. .*slipway apps resume-deploys hello\n/,
  );
  await done("apps", "resume-deploys", "hello");
  assert.match(await refused(2, "rollback", "3"), /^app is missing/, "a number alone is a release");
  assert.match(
    await refused(4, "rollback", "hello", "9"),
    /no release v9\. To list them: slipway releases list hello/,
  );

  assert.match(await refused(4, "rollouts", "show", "hello"), /slipway releases list hello/);
  await insertRollOut(db, appId);
  assert.match((await done("rollouts", "show", "hello")).stdout, /^State +running\n/);
  assert.match(
    (await done("rollouts", "pause", "hello")).stderr,
    /^The roll-out of v4 after v3 is paused/,
  );
  assert.equal((await done("rollouts", "resume", "hello", "--json")).json().state, "running");
  await done("rollouts", "cancel", "hello");
  assert.match(
    (await done("rollouts", "show", "hello", "-f")).stdout,
    /^The roll-out of v4 after v3 is rolled back/,
  );
  assert.match(await refused(1, "rollouts", "finish", "hello"), /\w/);

  for (const word of ["replicas", "containers"]) {
    assert.match((await done(word, "hello")).stderr, /^The app has no replicas now/);
    assert.deepEqual((await done(word, "hello", "--json")).json(), []);
  }
  await sql`
    insert into replicas (id, project_id, app_id, release_id, build_id, driver, state, compute, compute_tier, gpu_count,
                          cpu_cores, memory_gb, created_at)
    select 'hello-replica', project_id, app_id, id, build_id, 'process', 'ready', 'CPU', 'protected', 0, 1, 1, now()
      from releases where app_id = ${appId} and number = 2`.execute(db);
  const { stdout } = await done("replicas", "hello");
  assert.match(
    stdout,
    /^REPLICA +RELEASE +STATE .*\nhello-replica +v2, v1 +RUNNING /,
    "both are of its build",
  );
  assert.deepEqual((await done("replicas", "hello", "--json")).json()[0].releases, [2, 1]);
});

test("status says of an app that serves why its newest build failed, and what to do", async (t) => {
  const { done, db, appId } = await startCliStage(t);
  await insertReleases(db, appId);
  const reason =
    "pip failed. Correct it and build it again (POST …/apps/{app}/builds).\nmany more lines";
  const newest = { status: "build_failure", reason, ended_at: new Date(0) } as const;
  await db.updateTable("builds").set(newest).where("app_id", "=", appId).execute();
  assert.match(
    (await done("status")).stdout,
    /\nhello +ACTIVE [^]*\nNeeds attention:\n {2}hello: The newest build failed 1970-01-01T00:00:00\.000Z: pip failed\. Correct it and build it again \(slipway deploy, or for an app of a repository slipway builds start\)\. Release v2 still takes calls\. To see why: slipway builds show hello [0-9a-f-]{36}\n$/,
  );
  const [listed] = (await done("apps", "--json")).json();
  assert.deepEqual(
    [listed.lastBuildStatus, listed.lastBuildReason, listed.liveRelease],
    ["build_failure", reason, 2],
  );
});

test("the log of a build is shown, also while it goes on, and how it ended is the exit code", async (t) => {
  const stage = await startCliStage(t);
  const { done, slipway, buildLogs, db } = stage;
  const { id } = (await done("builds", "show", "hello", "--json")).json();
  const common = {
    stage: "build",
    stream: "platform",
    at: Date.parse("2026-01-01T00:00:00Z"),
  } as const;
  await buildLogs.append(
    id,
    [1, 2, 3].map((number) => ({ ...common, line: `line ${number}\x1b[2J` })),
  );
  const at = "2026-01-01T00:00:00.000Z";
  const lines = [1, 2, 3].map((number) => `${at}  build     line ${number}[2J\n`);
  assert.equal((await done("logs", "hello", "--build", "1")).stdout, lines.join(""));
  assert.equal((await done("builds", "logs", "hello")).stdout, lines.join(""));
  assert.equal((await done("logs", "hello", "--build", "latest", "-n", "1")).stdout, lines[2]);
  assert.equal(
    (await done("logs", "hello", "--build", id, "-n", "1", "--json")).json().lineNumber,
    3,
  );
  assert.match(
    await stage.refused(2, "logs", "hello", "--build", "1", "--run", nobody),
    /either --build or --run/,
  );
  await db
    .updateTable("builds")
    .set({ status: "build_failure", reason: "It did not compile.", ended_at: new Date() })
    .execute();
  const followed = await slipway(["logs", "hello", "--build", "1", "-f"]);
  assert.deepEqual([followed.code, followed.stdout], [1, lines.join("")]);
  assert.equal(followed.stderr, "The build ended: build_failure. It did not compile.\n");
  assert.equal((await done("builds", "logs", "hello")).stderr, "The build ended: build_failure\n");
});

test("the lines of an app since a time are shown; a reader that goes away ends the command without a word", async (t) => {
  const stage = await startCliStage(t);
  const { done, refused, appLogs, projectId, appId } = stage;
  const of = {
    projectId,
    appId,
    replicaId: "hello-one" as never,
    runId: null,
    stream: "stdout" as const,
  };
  const old = Date.now() - 3_600_000;
  const lines = Array.from({ length: 500 }, (_, index) => ({
    ...of,
    at: old,
    text: `old ${index} ${"x".repeat(500)}`,
  }));
  await appLogs.append([...lines, { ...of, at: Date.now(), text: "new" }]);
  assert.match((await done("logs", "hello", "--since", "10m")).stdout, /^\S+ {2}new\n$/);
  assert.equal((await done("logs", "hello", "--since", "2h")).stdout.split("\n").length, 502);
  assert.match(
    await refused(2, "logs", "hello", "--since", "soon"),
    /--since is "soon", but must be 10m, 2h/,
  );
  const piped = startCommand(t, stage, ["logs", "hello", "-n", "1000"]);
  piped.closeOutput();
  assert.deepEqual([(await piped.ended).code, piped.stderr()], [0, ""]);
});

test("runs are listed, shown, cancelled, run again and purged, and results are printed", async (t) => {
  const stage = await startCliStage(t);
  const { done, refused } = stage;
  const past = new Date(Date.now() - 60_000);
  const waiting = await insertRun(stage);
  const failed = await insertRun(stage, {
    state: "failure",
    reason: "It broke.",
    acceptedAt: past,
  });
  const result = { body: Buffer.from('{"run_id":"x","result":{"pages":3},"run_time_ms":1}') };
  const good = await insertRun(stage, { state: "success", result });
  const text = { body: Buffer.from("one\n"), contentType: "text/plain" };
  const bad = await insertRun(stage, {
    state: "failure",
    statusCode: 500,
    result: text,
    acceptedAt: past,
  });

  const list = await done("runs", "list", "hello", "--async");
  assert.match(list.stdout, /^RUN +STATE +CODE +FUNCTION +KIND/);
  assert.equal(list.stdout.split("\n").length, 6);
  const one = await done("runs", "list", "hello", "-n", "1", "--json");
  assert.deepEqual(
    [one.json().length, one.stderr],
    [1, "There are more. To see them: --limit 2\n"],
  );
  const { projectId, appId } = stage;
  const leftOut = { id: randomUUID(), projectId, appId, calls: 7, latestAt: Date.now() };
  await callRecordWriter(stage.db).writeLeftOut([leftOut]);
  const all = await done("runs", "list", "hello");
  assert.match(all.stderr, /^7 more calls are not listed: of those that succeed, a sample/);
  assert.equal((await done("runs", "list", "hello", "--async")).stderr, "");
  assert.match(
    await refused(2, "runs", "list", "hello", "--status", "sucess"),
    /Did you mean success\?/,
  );
  assert.match(await refused(2, "runs", "list", "hello", "-n", "0"), /--limit is "0".*1 to 10000/);
  assert.match(
    (await done("runs", "show", "hello", failed)).stdout,
    /^State +failure\nReason +It broke\.\n/m,
  );
  assert.match(await refused(4, "runs", "show", "hello", nobody), /slipway runs list hello/);

  assert.equal((await done("runs", "result", "hello", good)).stdout, '{"pages":3}\n');
  assert.equal(
    (await stage.slipway(["runs", "result", "hello", good], onTerminal(80))).stdout,
    '{\n  "pages": 3\n}\n',
  );
  const ended = await stage.slipway(["runs", "result", "hello", bad, "--wait"]);
  assert.deepEqual([ended.code, ended.stdout], [1, "one\n"]);
  assert.match(await refused(1, "runs", "result", "hello", waiting), /To wait for its end: --wait/);
  const late = await refused(1, "runs", "result", "hello", waiting, "--wait", "--timeout", "0");
  assert.match(late, /has not ended within 0; it goes on/);

  assert.match(
    (await done("runs", "cancel", "hello", waiting)).stderr,
    /is now in state cancelled/,
  );
  assert.match(
    (await done("runs", "redrive", "hello", failed)).stderr,
    /^The new run is [0-9a-f-]{36}\./,
  );
  assert.match(await refused(2, "runs", "redrive", "hello"), /either a run id or --all/);
  assert.deepEqual((await done("runs", "redrive", "hello", "--all", "--json")).json(), {
    runId: null,
    redriven: 1,
  });
  await insertRun(stage, { state: "timeout", acceptedAt: past });
  assert.equal((await done("runs", "list", "hello", "--dead", "--json")).json().length, 1);
  assert.match(await refused(2, "runs", "purge", "hello"), /add --yes/);
  assert.equal((await done("runs", "purge", "hello", "--yes")).stderr, "Purged: 1.\n");
  assert.equal((await done("runs", "list", "hello", "--dead")).stderr, "There are none.\n");
});

test("secrets are set beside others, from arguments, a file or standard input, and removed; values stay hidden", async (t) => {
  const stage = await startCliStage(t);
  const { done, refused } = stage;
  assert.match((await done("secrets")).stderr, /There are no secrets/);
  await done("secrets", "set", "ONE=1", "TWO=a=b");
  const file = join(temporaryFolder(t, "env"), ".env");
  writeFileSync(file, "# comment\nTHREE='three words'\nTWO=2\n");
  assert.match(
    (await done("secrets", "set", "--from-env", file)).stderr,
    /^THREE, TWO: 2 secrets were changed/,
  );
  const list = await done("secrets");
  assert.equal(list.stdout, "NAME\nONE\nTHREE\nTWO\n");
  const values = { ONE: "1", THREE: "three words", TWO: "2" };
  const listed = (await done("secrets", "list", "--json")).json() as {
    name: string;
    value: string;
  }[];
  assert.deepEqual(Object.fromEntries(listed.map(({ name, value }) => [name, value])), values);

  const piped = startCommand(t, stage, ["secrets", "set", "TYPED", "--app", "hello", "--restart"]);
  piped.type("not in the history\n");
  assert.equal((await piped.ended).code, 0, piped.stderr());
  assert.match(piped.stderr(), /^TYPED: 1 secret was changed/);
  assert.deepEqual((await done("secrets", "list", "--app", "hello", "--json")).json(), [
    { name: "TYPED", value: "not in the history" },
  ]);

  assert.match(await refused(2, "secrets", "set"), /There is nothing to set/);
  const empty = startCommand(t, stage, ["secrets", "set", "A"]);
  empty.type("");
  assert.equal((await empty.ended).code, 2);
  assert.match(
    empty.stderr(),
    /^Nothing came on standard input for A\. .*: slipway secrets set A=/,
  );
  assert.match(await refused(2, "secrets", "set", "A", "B"), /standard input has one value only/);
  assert.match(await refused(2, "secrets", "set", "--from-env", `${file}.not`), /cannot be read/);
  assert.match(await refused(4, "secrets", "remove", "THRE", "--yes"), /Did you mean THREE\?/);
  assert.match(
    await refused(4, "secrets", "remove", "NOPE"),
    /no secret "NOPE"/,
    "it asks nothing",
  );
  assert.match(await refused(2, "secrets", "remove", "THREE"), /add --yes/);
  await done("secrets", "remove", "THREE", "TWO", "--yes");
  assert.equal((await done("secrets")).stdout, "NAME\nONE\n");
  assert.match(await refused(4, "secrets", "--app", "helo"), /Did you mean hello\?/);
});

test("git credentials, hook addresses and pushes are listed and changed", async (t) => {
  const stage = await startCliStage(t);
  const { done, refused } = stage;
  assert.match((await done("git", "credentials")).stderr, /slipway git credentials set <host>/);
  const piped = startCommand(t, stage, [
    "git",
    "credentials",
    "set",
    "git.example.org",
    "--username",
    "ada",
  ]);
  piped.type("s3cret\n");
  assert.equal((await piped.ended).code, 0, piped.stderr());
  assert.match(
    (await done("git", "credentials")).stdout,
    /^HOST +KIND +USER .*\ngit\.example\.org +token +ada /,
  );
  assert.match(
    await refused(2, "git", "credentials", "set", "x.org", "--ssh-key", "/nowhere"),
    /cannot be read/,
  );
  await done("git", "credentials", "remove", "git.example.org", "--yes");
  assert.match(
    await refused(4, "git", "credentials", "remove", "git.example.org", "--yes"),
    /slipway git credentials/,
  );

  assert.equal(
    await refused(4, "git", "hook", "show", "hello"),
    "The app has no hook address yet: make one (slipway git hook create).\n",
  );
  const made = await done("git", "hook", "create", "hello");
  assert.match(made.stderr, /add a webhook to http\S+ for pushes as JSON/);
  assert.match(made.stdout, /^\S+\n$/);
  assert.match((await done("git", "hook", "show", "hello")).stdout, /^Address +http/);
  assert.equal(
    (await done("git", "deliveries", "list", "hello")).stderr,
    "No push has arrived yet.\n",
  );
  assert.match(await refused(4, "git", "deliveries", "replay", "hello", nobody), /\w/);
});

test("on a terminal a table fits its width, and times are relative", async (t) => {
  const stage = await startCliStage(t);
  await insertRun(stage, { state: "failure", reason: `It broke\x1b[2J: ${"because ".repeat(20)}` });
  for (const columns of [90, 120]) {
    const { stdout } = await stage.slipway(["runs", "list", "hello"], onTerminal(columns));
    for (const line of stdout.split("\n")) assert.ok(line.length <= columns, `${columns}: ${line}`);
    assert.match(stdout, /…/);
  }
  const narrow = await stage.slipway(["runs", "list", "hello"], onTerminal(40));
  assert.match(
    narrow.stdout,
    /^RUN +[0-9a-f-]{36}\nSTATE +failure\n[^]*^REASON +It broke\[2J: because /m,
  );
  const { stdout } = await stage.slipway(["apps"], onTerminal(200));
  assert.match(stdout, /^hello +\w+ +(?:now|\d+ (?:s|min) ago)$/m);
  const piped = await stage.done("runs", "list", "hello");
  assert.ok(piped.stdout.includes(`It broke[2J: ${"because ".repeat(20).trim()}`));
});
