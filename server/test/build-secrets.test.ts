// Secrets of builds with the process driver, on real git, pip and a package index that asks for
// credentials: they reach the steps that may have them, and nothing that stays.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";
import { platformActor } from "#audit/record.ts";
import { rebuild } from "#deploy/receive.ts";
import type { Artifact } from "#drivers/driver.ts";
import { processArtifact } from "#drivers/process/artifact.ts";
import type { AppId, BuildId } from "#lib/ids.ts";
import { Secret } from "#lib/secret.ts";
import {
  buildInState,
  createApp,
  playedTrial,
  requestBuild,
  startQueue,
} from "#test/support/build-queue.ts";
import { testDatabase } from "#test/support/database.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { pipVersion } from "#test/support/give-pip.ts";
import { startPrivateIndex } from "#test/support/private-index.ts";

const run = promisify(execFile);
const password = "sesame-9f2c+open/õ";
/** Programs do not agree on how others are sent. */
const asciiPassword = "sesame-9f2c+open/o";

/** Making pip for an environment takes a minute on a busy machine. */
const deadlineMs = 600_000;

type Values = Readonly<Record<string, string>>;

async function open(t: TestContext) {
  const database = await testDatabase(t);
  const folder = temporaryFolder(t, "secrets");
  const git = await startGitServer(t);
  const values = new Map<AppId, Values>();
  const secretsOf = (appId: AppId) =>
    Object.fromEntries(
      Object.entries(values.get(appId) ?? {}).map(([name, value]) => [name, new Secret(value)]),
    );
  await startQueue(t, {
    ...database,
    buildTimeoutMs: deadlineMs,
    folder,
    secretsOf,
    urlTemplate: git.urlTemplate,
    trial: playedTrial(() => ({ ok: true })),
  });
  const { db } = database;
  const greeterOf = async (buildId: BuildId): Promise<string> => {
    const row = await db
      .selectFrom("releases")
      .select("artifact")
      .where("build_id", "=", buildId)
      .executeTakeFirstOrThrow();
    const { python, appDir } = processArtifact(row.artifact as Artifact);
    const { stdout } = await run(python, ["-c", "import greeter; print(greeter.version)"], {
      cwd: appDir,
    });
    return stdout.trim();
  };
  return { db, folder, git, values, greeterOf };
}

/** All that is stored of builds, as one text. */
async function storedText({ db, folder }: Awaited<ReturnType<typeof open>>): Promise<string> {
  const rows = await Promise.all([
    db.selectFrom("builds").selectAll().execute(),
    db.selectFrom("build_logs").selectAll().execute(),
    db.selectFrom("releases").selectAll().execute(),
    db.selectFrom("audit_log").selectAll().execute(),
  ]);
  const files = await run("grep", [
    "-rlF",
    "-e",
    "sesame-9f2c",
    "-e",
    "c2VzYW1lLTlmMm",
    folder,
  ]).catch(() => ({
    stdout: "",
  }));
  return `${JSON.stringify(rows)}${files.stdout}`;
}

const leak = /sesame-9f2c|%2Bopen|c2VzYW1lLTlmMm|zZXNhbWUtOWYyY|NlC2FtZS05ZjJj/;

function toml(more: string): string {
  return `[cerebrium.deployment]\npython_version = "${pipVersion}"\n${more}`;
}

test("packages come from an index whose address has a build secret, and it stays nowhere", async (t) => {
  const bed = await open(t);
  const port = await startPrivateIndex(t, `reader:${asciiPassword}`);
  await bed.git.createRepo("acme", "app", {
    "main.py": "",
    "slipway.toml": toml('[slipway.build]\nsecrets = ["PIP_TOKEN", "GREETER_VERSION"]\n'),
    "requirements.txt": `--index-url http://reader:\${PIP_TOKEN}@127.0.0.1:${port}/simple\ngreeter==\${GREETER_VERSION}\n`,
  });
  const app = await createApp(bed.db);
  const first = encodeURIComponent(asciiPassword);
  bed.values.set(app.appId, { PIP_TOKEN: first, GREETER_VERSION: "1.0", OTHER: "not-asked-for" });
  const { buildId } = await requestBuild(bed.db, app);
  await buildInState(bed.db, buildId, ["success"], deadlineMs);
  assert.equal(await bed.greeterOf(buildId), "1.0");
  assert.doesNotMatch(await storedText(bed), leak);
  // Another app of the project has other values for the same names.
  const other = await createApp(bed.db, { name: "other", projectId: app.projectId });
  bed.values.set(other.appId, { PIP_TOKEN: first, GREETER_VERSION: "2.0" });
  const ofOther = await requestBuild(bed.db, other);
  await buildInState(bed.db, ofOther.buildId, ["success"], deadlineMs);
  assert.equal(await bed.greeterOf(ofOther.buildId), "2.0");
  // A new value counts when somebody builds the same again.
  bed.values.set(app.appId, { PIP_TOKEN: first, GREETER_VERSION: "2.0" });
  const again = await bed.db
    .transaction()
    .execute((tx) => rebuild(tx, { ...app, buildId, by: platformActor }));
  await buildInState(bed.db, again.buildId, ["success"], deadlineMs);
  assert.equal(await bed.greeterOf(again.buildId), "2.0");
});

test("commands get build secrets as variables, and what they print of them is hidden", async (t) => {
  const bed = await open(t);
  const steps = [
    `test "$(printf %s "$TOKEN" | sha256sum)" = "${createHash("sha256").update(password).digest("hex")}  -" && test -z "$OTHER"`,
    'echo "plain $TOKEN"; printf %s "$TOKEN" | base64; printf "u:%s" "$TOKEN" | base64; printf "us:%s" "$TOKEN" | base64',
    'echo "cannot sign in with $TOKEN" >&2; exit 3',
  ];
  await bed.git.createRepo("acme", "app", {
    "main.py": "",
    "slipway.toml": toml(
      `shell_commands = ${JSON.stringify(steps)}\n[slipway.build]\nsecrets = ["TOKEN"]\n`,
    ),
  });
  const app = await createApp(bed.db);
  bed.values.set(app.appId, { TOKEN: password, OTHER: "not-asked-for" });
  const { buildId } = await requestBuild(bed.db, app);
  const { row, log } = await buildInState(bed.db, buildId, ["build_failure"], deadlineMs);
  assert.match(row.reason ?? "", /^Command 3 of shell_commands ended with exit code 3/);
  assert.match(row.reason ?? "", /It says: cannot sign in with \[secret\]\./);
  assert.ok(log.includes("plain [secret]"), log.join("\n"));
  assert.ok(log.includes("cannot sign in with [secret]"));
  assert.doesNotMatch(await storedText(bed), leak);
});

test("a build secret that nobody has set is named, with what to do", async (t) => {
  const bed = await open(t);
  await bed.git.createRepo("acme", "app", {
    "main.py": "",
    "slipway.toml": toml('[slipway.build]\nsecrets = ["TOKEN", "constructor", "OTHER"]\n'),
  });
  const app = await createApp(bed.db);
  bed.values.set(app.appId, { TOKEN: password });
  const { buildId } = await requestBuild(bed.db, app);
  const { row } = await buildInState(bed.db, buildId, ["build_failure"], deadlineMs);
  assert.match(
    row.reason ?? "",
    /^Builds of this app need secrets that neither the app nor its project has: constructor, OTHER .*slipway secrets set constructor/,
  );
});
