// Commands in replicas, over the management API of a whole platform: who may run one, what it sees,
// and what is left of it.
import assert from "node:assert/strict";
import { createHash, randomBytes } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import type { Db } from "#store/database.ts";
import { asOwner } from "./support/as-owner.ts";
import { testDatabase } from "./support/database.ts";
import { deploy } from "./support/examples.ts";
import { openExec, refusedExec, type ExecAddress, type OpenedExec } from "./support/exec-client.ts";
import { startGitServer } from "./support/git-server.ts";
import { commandsAt } from "./support/slipway-command.ts";
import { startPlatform, type PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

type Stage = {
  readonly t: TestContext;
  readonly db: Db;
  readonly platform: PlatformProcess;
  readonly appId: string;
  readonly replicaId: string;
  open(command: readonly string[], more?: Partial<ExecAddress>): Promise<OpenedExec>;
  refused(more: Partial<ExecAddress>): Promise<readonly [number, string]>;
};

test("commands in replicas, over WebSockets", { timeout: 250_000 }, async (t) => {
  const stage = await start(t);
  await t.test("only who may, in a replica of that app, and only as a WebSocket", () =>
    checkRefusals(stage),
  );
  await t.test("it has channels for its outputs, its input and its status", () =>
    checkChannels(stage),
  );
  await t.test("it sees and may do what the app does, and nothing more", () => checkSandbox(stage));
  await t.test("the log names the program and the end, but no argument", () => checkAudit(stage));
  await t.test("none runs that could not be recorded", () => checkUnrecorded(stage));
  await t.test("nothing is left of it when its client leaves", () => checkLeaving(stage));
  await t.test("only so many run at once", () => checkBounds(stage));
  await t.test("the command line passes on input, output and exit code", () =>
    checkCommandLine(stage),
  );
  await t.test("it ends with its replica, and with the platform", () => checkEnds(stage));
});

async function start(t: TestContext): Promise<Stage> {
  const git = await startGitServer(t);
  await git.createRepo("acme", "app", { "main.py": "def run():\n    return 1\n" });
  const { db, url } = await testDatabase(t);
  const addresses = { SLIPWAY_GIT_URL: git.urlTemplate, SLIPWAY_DATABASE_URL: url.reveal() };
  const platform = await startPlatform(t, addresses);
  const settings = { gitRepo: "acme/app", pythonVersion: "3.11", minReplicaCount: 1 };
  const { appId, status, log } = await deploy(platform, { name: "worker", ...settings });
  assert.equal(status, "success", log);
  const asleep = { gitRepo: "acme/app", pythonVersion: "3.11", cooldownPeriodSeconds: 1 };
  const other = await deploy(platform, { name: "other", ...asleep });
  assert.equal(other.status, "success", other.log);
  const replicaId = await replicaOf(platform, appId);
  return {
    t,
    db,
    platform,
    appId,
    replicaId,
    open: (command, more = {}) => openExec(t, platform, { appId, replicaId, command, ...more }),
    refused: (more) => refusedExec(platform, { appId, replicaId, command: ["true"], ...more }),
  };
}

function pathOf({ bootstrap }: PlatformProcess): string {
  return `/v2/projects/${bootstrap.projectId}`;
}

async function replicaOf(platform: PlatformProcess, appId: string): Promise<string> {
  return await until("a replica runs", async () => {
    const { body } = await platform.api("GET", `${pathOf(platform)}/apps/${appId}/containers`);
    const all = body as unknown as { containerId: string; containerState: string }[];
    return all.find(({ containerState }) => containerState === "RUNNING")?.containerId ?? null;
  });
}

async function checkRefusals({ platform, appId, replicaId, refused }: Stage): Promise<void> {
  const { inferenceToken, projectId } = platform.bootstrap;
  const other = `${projectId}-other`;
  for (const [given, code, message] of [
    [{ token: "" }, 401, /No token was sent/],
    [{ token: "x" }, 401, /invalid, expired or revoked/],
    [{ token: inferenceToken }, 403, /only for calling apps/],
    [{ projectId: "p-00000000" }, 404, /project/],
    [{ appId: `${projectId}-none` }, 404, /no app/i],
    [{ appId: other }, 404, /no running replica with that id/],
    [{ replicaId: "worker-0000000000" }, 404, /no running replica with that id/],
    [
      { protocols: ["v4.channel.k8s.io"] },
      400,
      /Sec-WebSocket-Protocol has no v5\.channel\.k8s\.io/,
    ],
    [{ command: [] }, 400, /^command is missing/],
    [{ command: [""] }, 400, /^command is missing/],
    [{ command: ["echo", "hidden", "\0"] }, 400, /^command is not shown here/],
    [{ more: { tty: "perhaps" } }, 400, /^tty is "perhaps"/],
    [{ more: { columns: "0" } }, 400, /^columns is 0/],
    [{ more: { shell: "yes" } }, 400, /"shell" is not a parameter/],
  ] as const) {
    const [status, said] = await refused(given);
    assert.equal(status, code, `${JSON.stringify(given)}: ${said}`);
    assert.match(said, message);
  }
  const path = `${pathOf(platform)}/apps/${appId}/containers/${replicaId}/exec?command=true`;
  const plain = await platform.api("GET", path);
  assert.deepEqual(
    [plain.status, plain.body.message.startsWith("The request opens no WebSocket")],
    [400, true],
  );
}

async function checkChannels({ open, platform }: Stage): Promise<void> {
  const apart = await open(["sh", "-c", "echo out; echo err >&2; exit 3"]);
  const status = await apart.status;
  assert.deepEqual(
    [String(apart.told(1)), String(apart.told(2)), await apart.code],
    ["out\n", "err\n", 1000],
  );
  assert.deepEqual(
    [status?.status, status?.details?.causes],
    ["Failure", [{ reason: "ExitCode", message: "3" }]],
  );
  assert.equal((await (await open(["true"])).status)?.status, "Success");
  const repeated = await open(["echo", "a", "a", "b"]);
  await repeated.code;
  assert.equal(String(repeated.told(1)), "a a b\n");

  const bytes = randomBytes(3_000_000);
  const echo = await open(["cat"], { more: { stdin: "true" } });
  for (let at = 0; at < bytes.length; at += 100_000) echo.send(0, bytes.subarray(at, at + 100_000));
  echo.send(255, Buffer.of(0));
  assert.equal((await echo.status)?.status, "Success");
  const hash = (given: Buffer): string => createHash("sha256").update(given).digest("hex");
  assert.equal(hash(echo.told(1)), hash(bytes));

  const bearer = Buffer.from(platform.bootstrap.serviceAccountToken).toString("base64url");
  const protocols = ["v5.channel.k8s.io", `base64url.bearer.authorization.k8s.io.${bearer}`];
  const ofPage = await open(["echo", "hello"], { token: "", protocols });
  await ofPage.code;
  assert.equal(String(ofPage.told(1)), "hello\n");

  const shell = await open(["sh"], {
    more: { stdin: "true", tty: "true", columns: "91", rows: "17" },
  });
  shell.send(0, "stty size\r");
  await until("it has the first size", () => String(shell.told(1)).includes("17 91"));
  // As when a window is dragged larger: the last size is the one that stays.
  for (let width = 101; width <= 120; width++) shell.send(4, `{"Width":${width},"Height":40}`);
  shell.send(4, "nonsense");
  await until("it has the next size", () => {
    shell.send(0, "stty size\r");
    return String(shell.told(1)).includes("40 120");
  });
  shell.send(0, "exit 7\r");
  assert.equal((await shell.status)?.details?.causes[0]?.message, "7");
}

async function checkSandbox({ open, platform, replicaId }: Stage): Promise<void> {
  const script = `echo "$SLIPWAY_REPLICA_ID"; pwd; id -u; grep -E '^Cap(Eff|Bnd)|^NoNewPrivs' /proc/self/status
ls "$1" 2>&1; ls /proc | grep -c '^[0-9]'; ls -d /view /enter-* 2>&1; (echo x >/usr/x) 2>&1; kill -9 1 2>&1`;
  const inside = await open(["sh", "-c", script, "sh", platform.dataDir]);
  await inside.code;
  const text = String(inside.told(1));
  const [replica, folder, user = ""] = text.split("\n");
  assert.deepEqual([replica, folder], [replicaId, "/cortex"]);
  assert.ok(Number(user) > 100_000, `a user of the project's own: ${user}`);
  assert.match(text, /CapBnd:\t0+\nCapEff|CapEff:\t0+\nCapBnd:\t0+\nNoNewPrivs:\t1/);
  assert.doesNotMatch(text, /bootstrap|secret\.key|postgres/);
  assert.match(text, /cannot access '\/view'/);
  assert.match(text, /cannot access '\/enter-\*'/);
  assert.match(text, /Read-only file system/);
  const missing = await open(["no-such-program"]);
  assert.equal((await missing.status)?.details?.causes[0]?.message, "127");
  assert.match(String(missing.told(2)), /no-such-program: not found/);
}

/**
 * The database takes its time to refuse, in which a command that was started too early would do its
 * work.
 */
async function checkUnrecorded({ db, open, refused }: Stage): Promise<void> {
  await asOwner(db, async (tx) => {
    await sql`
      create function refuse_exec() returns trigger language plpgsql as $$
        begin perform pg_sleep(2); raise exception 'no'; end $$`.execute(tx);
    await sql`
      create trigger refuse_exec before insert on audit_log for each row
        when (new.action = 'replica.exec') execute function refuse_exec()`.execute(tx);
  });
  const [status] = await refused({ command: ["touch", "/tmp/unrecorded"] });
  assert.equal(status, 500);
  await asOwner(db, async (tx) => {
    await sql`drop function refuse_exec() cascade`.execute(tx);
  });
  const look = await open(["ls", "/tmp"]);
  await look.code;
  assert.doesNotMatch(String(look.told(1)), /unrecorded/);
}

async function checkAudit({ open, platform, replicaId }: Stage): Promise<void> {
  await (
    await open(["printf", "very-secret-argument"])
  ).code;
  const entries = await until("the end is recorded", async () => {
    const { body } = await platform.api("GET", `${pathOf(platform)}/audit-log?limit=100`);
    const { logs } = body as unknown as { logs: Entry[] };
    return logs.some(
      ({ action, changes }) =>
        action === "replica.exec_end" && changes?.["program"]?.new === "printf",
    )
      ? logs
      : null;
  });
  assert.doesNotMatch(JSON.stringify(entries), /very-secret-argument/);
  const end = entries.find(({ action }) => action === "replica.exec_end");
  assert.deepEqual([end?.resource?.id, end?.changes?.["exitCode"]?.new], [replicaId, 0]);
  const begin = entries.find(
    ({ action, outcome }) => action === "replica.exec" && outcome === "success",
  );
  assert.deepEqual(
    [
      begin?.changes?.["program"]?.new,
      begin?.changes?.["arguments"]?.new,
      begin?.changes?.["app"]?.new,
    ],
    ["printf", 1, `${platform.bootstrap.projectId}-worker`],
  );
  assert.ok(
    entries.some(({ action, outcome }) => action === "replica.exec" && outcome === "failure"),
    "refused ones are recorded",
  );
}

type Entry = {
  readonly action: string;
  readonly outcome: string;
  readonly resource: { readonly id: string } | null;
  readonly changes: Readonly<Record<string, { readonly new: unknown }>> | null;
};

async function checkLeaving({ open }: Stage): Promise<void> {
  for (const tty of ["false", "true"]) {
    const script = "trap '' HUP TERM; (setsid sleep 31337.5 &) ; echo begun; sleep 31337.5";
    const exec = await open(["sh", "-c", script], { more: { tty, stdin: "true" } });
    await until("it has begun", () => String(exec.told(1)).includes("begun"));
    assert.ok(lives("31337.5"));
    exec.client.terminate();
    await until("nothing is left", () => !lives("31337.5"));
  }
  // Output that nobody takes waits in the replica.
  const flood = await open(["sh", "-c", "yes 31337.6"]);
  flood.client.pause();
  await until("it runs", () => lives("31337.6"));
  flood.client.terminate();
  await until("the flood has ended", () => !lives("31337.6"));
}

async function checkBounds({ open, refused }: Stage): Promise<void> {
  const all: OpenedExec[] = [];
  for (let count = 0; count < 20; count++) {
    // Commands of earlier tests count until their ends are recorded.
    all.push(await until("there is room", () => open(["sleep", "1000"]).catch(() => null)));
  }
  const [status, message] = await refused({});
  assert.deepEqual(
    [status, message.startsWith("At most 20 commands may run in the projects of one owner")],
    [429, true],
  );
  for (const { client } of all) client.terminate();
  await until("there is room again", async () => {
    const exec = await open(["true"]).catch(() => null);
    return (await exec?.status)?.status === "Success";
  });
}

async function checkCommandLine({ t, platform, replicaId }: Stage): Promise<void> {
  const { baseUrl, projectId, serviceAccountToken } = platform.bootstrap;
  const env = {
    SLIPWAY_URL: baseUrl,
    SLIPWAY_PROJECT: projectId,
    SLIPWAY_TOKEN: serviceAccountToken,
  };
  const slipway = commandsAt(t, { env });
  const apart = await slipway([
    "exec",
    "worker",
    "--",
    "sh",
    "-c",
    "echo out; echo err >&2; exit 3",
  ]).ended;
  assert.deepEqual([apart.code, apart.stdout, apart.stderr], [3, "out\n", "err\n"]);
  const input = "line\n".repeat(100_000);
  const echo = await slipway(["exec", "worker", "-i", "-c", replicaId, "--", "cat"], { input })
    .ended;
  assert.deepEqual([echo.code, echo.stdout.length, echo.stderr], [0, input.length, ""]);
  // As in a cron job.
  const main = join(import.meta.dirname, "../../cli/src/main.ts");
  const withoutInput = ["sh", "-c", '"$@" </dev/null', "sh", process.execPath, main];
  for (const option of ["-c", "-ic"]) {
    const words = ["exec", "worker", option, replicaId, "--", "sh", "-c", "cat; exit 4"];
    const ended = await slipway(words, { program: withoutInput }).ended;
    assert.deepEqual([ended.code, ended.stdout, ended.stderr], [4, "", ""]);
  }
  const ofOther = `${pathOf(platform)}/apps/${projectId}-other/containers`;
  await until("the other app sleeps", async () => {
    const { body } = await platform.api("GET", ofOther);
    return (body as unknown as object[]).length === 0;
  });
  for (const [words, code, message] of [
    [["other", "--", "true"], 4, /^The app has no running replica now\. Call it, or keep one/],
    [["worker"], 2, /^command is missing/],
    [["worker", "-t"], 2, /^A terminal was asked for/],
    [["worker", "--json", "--", "true"], 2, /^--json is not for exec/],
    [["worker", "-c", "worker-1", "--", "true"], 4, /no running replica with that id/],
  ] as const) {
    const ended = await slipway(["exec", ...words]).ended;
    assert.equal(ended.code, code, ended.stderr);
    assert.match(ended.stderr, message);
  }
  const terminal = join(import.meta.dirname, "support/on-terminal.py");
  const words = ["exec", "worker", "-it"];
  const shell = slipway(words, {
    program: ["python3", terminal, process.execPath, main],
    input: null,
  });
  await until("there is a prompt", () => shell.stdout().includes("$"));
  shell.type("tty; exit 9\r");
  const end = await shell.ended;
  assert.equal(end.code, 9, end.stdout + end.stderr);
  assert.match(end.stdout, /\/dev\/pts\/\d+/);
}

async function checkEnds({ open, platform, appId, replicaId }: Stage): Promise<void> {
  const exec = await open(["sleep", "1000"]);
  const flood = await open([
    "sh",
    "-c",
    "yes 31337.8",
    "of",
    "a",
    "client",
    "that",
    "reads",
    "nothing",
  ]);
  flood.client.pause();
  await until("it runs", () => lives("31337.8"));
  assert.equal(
    (await platform.api("POST", `${pathOf(platform)}/apps/${appId}/restart`)).status,
    200,
  );
  assert.match((await exec.status)?.message ?? "", /replica (was stopped|does not run any more)/);
  const next = await until("another one runs", async () => {
    const id = await replicaOf(platform, appId);
    return id === replicaId ? null : id;
  });
  const isFloodRecorded = async (): Promise<boolean> => {
    const { body } = await platform.api("GET", `${pathOf(platform)}/audit-log?limit=100`);
    const { logs } = body as unknown as { logs: Entry[] };
    return logs.some(
      ({ action, changes }) => action === "replica.exec_end" && changes?.["arguments"]?.new === 8,
    );
  };
  await until("its end is recorded, whatever its client does", isFloodRecorded, {
    deadlineMs: 60_000,
  });
  const left = await open(["sh", "-c", "trap '' HUP TERM; sleep 31337.7; sleep 31337.7"], {
    replicaId: next,
  });
  await until("it runs", () => lives("31337.7"));
  await platform.end("SIGKILL");
  await left.code;
  await platform.restart();
  await until("the next platform has ended it", () => !lives("31337.7"));
  const again = await open(["echo", "$0"], { replicaId: await replicaOf(platform, appId) });
  assert.equal((await again.status)?.status, "Success");
}

/** Whether a process of this machine has a text in its command line. */
function lives(text: string): boolean {
  return readdirSync("/proc").some((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(text);
    } catch {
      return false;
    }
  });
}
