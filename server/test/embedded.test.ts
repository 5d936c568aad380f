// The embedded PostgreSQL with real processes that are really killed: server, platform and initdb;
// the data folder's lock.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import type { TestContext } from "node:test";
import { Client } from "pg";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { startEmbedded, type Embedded } from "#store/postgres/embedded.ts";
import { lockFolder, type FolderLock } from "#store/folder-lock.ts";
import { isServerOf } from "#store/postgres/postgres-orphan.ts";
import { findPostgres } from "#store/postgres/postgres-program.ts";
import { drawTests } from "#test/support/drawn-cases.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import "#test/support/leftovers.ts";
import { until } from "#test/support/until.ts";

const test = drawTests({ what: "fates of an embedded database", count: 14, max: 5 });

/** One embedded server on a folder, stopped with the test. */
type Place = { folder: string; lock: FolderLock; start(): Promise<Embedded> };

function place(t: TestContext, folder = temporaryFolder(t, "embedded")): Place {
  const lock = lockFolder(join(folder, "slipway.lock"));
  t.after(() => lock.release());
  return {
    folder,
    lock,
    async start() {
      const server = await startEmbedded({
        clock: systemClock,
        folder: join(folder, "postgres"),
        lock,
        connections: 10,
        log: silentLog,
      });
      t.after(() => server.stop());
      return server;
    },
  };
}

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url, connectionTimeoutMillis: 5_000 });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * Starts `support/embedded-child.ts` on the folder; `prefix` is a command that becomes the one
 * behind it.
 */
function startChild(t: TestContext, folder: string, prefix: readonly string[] = []): ChildProcess {
  const script = join(import.meta.dirname, "support/embedded-child.ts");
  const [command, ...parameters] = [...prefix, process.execPath, script, folder] as const;
  const child = spawn(command, parameters, { stdio: ["ignore", "pipe", "inherit"] });
  t.after(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  });
  return child;
}

async function killAndWait(child: ChildProcess): Promise<void> {
  const gone = once(child, "exit");
  child.kill("SIGKILL");
  await gone;
}

test("what is committed is there after a stop and a start; the server is reachable through its socket only", async (t) => {
  const { start, folder } = place(t);
  const first = await start();
  await query(first.url.reveal(), "create table kept (n integer); insert into kept values (7)");
  assert.deepEqual(await query(first.url.reveal(), "show listen_addresses"), [
    { listen_addresses: "" },
  ]);
  assert.deepEqual(await query(first.url.reveal(), "show fsync"), [{ fsync: "on" }]);
  await first.stop();
  assert.equal(existsSync(join(folder, "postgres/run")), false, "no socket is left");
  const second = await start();
  assert.equal(second.url.reveal(), first.url.reveal());
  assert.deepEqual(await query(second.url.reveal(), "select n from kept"), [{ n: 7 }]);
});

test("folder and password are the owner's only, and a wrong password is refused", async (t) => {
  const { start, folder } = place(t);
  const { url } = await start();
  assert.equal(statSync(join(folder, "postgres")).mode & 0o777, 0o700);
  assert.equal(statSync(join(folder, "postgres/password")).mode & 0o777, 0o600);
  const wrong = new URL(url.reveal());
  wrong.password = "wrong";
  await assert.rejects(query(wrong.toString(), "select 1"), /password authentication failed/);
});

test("a server that is killed is started again, and nothing committed is lost", async (t) => {
  const { start } = place(t);
  const server = await start();
  const url = server.url.reveal();
  await query(url, "create table kept (n integer); insert into kept values (1)");
  const killed = server.pid();
  assert.ok(killed);
  process.kill(killed, "SIGKILL");
  await until("another server runs", () => server.pid() !== null && server.pid() !== killed);
  assert.deepEqual(await query(url, "select n from kept"), [{ n: 1 }]);
});

test("after kill -9 of the platform the next start has all that was committed", async (t) => {
  const folder = temporaryFolder(t, "killed");
  const child = startChild(t, folder);
  const [line] = (await once(
    createInterface({ input: child.stdout ?? assert.fail() }),
    "line",
  )) as [string];
  const { postgresPid, url } = JSON.parse(line) as { postgresPid: number; url: string };
  await query(url, "create table kept (n integer); insert into kept values (2)");
  await killAndWait(child);
  const server = await place(t, folder).start();
  assert.notEqual(server.pid(), postgresPid);
  assert.equal(
    isServerOf(postgresPid, join(folder, "postgres/data")),
    false,
    "the killed platform's server is gone",
  );
  assert.deepEqual(await query(server.url.reveal(), "select n from kept"), [{ n: 2 }]);
});

test(
  "as root the server runs without user namespaces too, in a folder that only root may enter",
  { skip: process.getuid?.() === 0 ? false : "only root starts the server as another user" },
  async (t) => {
    const fixture = temporaryFolder(t, "closed");
    const folder = join(fixture, "data");
    const root = join(fixture, "root");
    for (const made of [folder, root]) mkdirSync(made, { mode: 0o700 });
    // Who lives below a changed root cannot make user namespaces, as in most containers.
    const script = 'mount --rbind / "$1" && exec chroot "$@"';
    const child = startChild(t, folder, ["unshare", "--mount", "sh", "-c", script, "sh", root]);
    const [line] = (await once(
      createInterface({ input: child.stdout ?? assert.fail() }),
      "line",
    )) as [string];
    const { postgresPid, url } = JSON.parse(line) as { postgresPid: number; url: string };
    assert.equal(statSync(`/proc/${postgresPid}`).uid, 65_534);
    assert.deepEqual(await query(url, "select 1 as one"), [{ one: 1 }]);
    await killAndWait(child);
    // Below the changed root its folder has another name, so `isServerOf` would not know it.
    const commandOf = (pid: number): string => {
      const path = `/proc/${pid}/cmdline`;
      return existsSync(path) ? readFileSync(path, "utf8") : "";
    };
    await until("the server ends with its platform", () => commandOf(postgresPid) === "");
  },
);

test(
  "as root the database is made on a machine whose only other user has any id",
  { skip: process.getuid?.() === 0 ? false : "only root maps users and mounts files" },
  async (t) => {
    const users = join(temporaryFolder(t, "users"), "passwd");
    writeFileSync(users, "root:x:0:0::/root:/bin/sh\nada:x:7777:7777::/:/bin/sh\n");
    const script = 'mount --bind "$1" /etc/passwd && shift && exec "$@"';
    const prefix = ["unshare", "--mount", "sh", "-c", script, "sh", users];
    const folder = temporaryFolder(t, "data");
    const child = startChild(t, folder, prefix);
    const [line] = (await once(
      createInterface({ input: child.stdout ?? assert.fail() }),
      "line",
    )) as [string];
    const { postgresPid, url } = JSON.parse(line) as { postgresPid: number; url: string };
    assert.deepEqual(await query(url, "select 1 as one"), [{ one: 1 }]);
    await killAndWait(child);
    const data = join(folder, "postgres/data");
    await until("the server ends with its platform", () => !isServerOf(postgresPid, data));
  },
);

test("a server that outlived its platform is stopped in order before a new one starts", async (t) => {
  const { start, folder } = place(t);
  const first = await start();
  const url = first.url.reveal();
  await first.stop();
  // The same command the platform uses, but nobody's child in its books: what a killed platform
  // leaves.
  const dataFolder = join(folder, "postgres/data");
  const socketFolder = join(folder, "postgres/run");
  mkdirSync(socketFolder);
  const program = await findPostgres(join(folder, "postgres"));
  const settings = ["-c", "listen_addresses=", "-c", `unix_socket_directories=${socketFolder}`];
  const orphan = program.run("postgres", ["-D", dataFolder, ...settings], {
    stdio: "ignore",
    cwd: "/",
  });
  const ended = once(orphan, "exit");
  await until("the orphan serves", () =>
    query(url, "create table kept as select 3 as n").then(() => true),
  );
  assert.ok(isServerOf(orphan.pid ?? 0, dataFolder));
  const second = await start();
  assert.deepEqual(await ended, [0, null], "it shut down by itself");
  assert.deepEqual(await query(second.url.reveal(), "select n from kept"), [{ n: 3 }]);
});

test("left-over lock files of server and socket do not stop a start, even when its process id is in use again", async (t) => {
  const { start, folder } = place(t);
  const first = await start();
  const pidFile = join(folder, "postgres/data/postmaster.pid");
  const lines = readFileSync(pidFile, "utf8").split("\n");
  await first.stop();
  for (const pid of [process.pid, 999_999_999, 1]) {
    const left = [pid, ...lines.slice(1)].join("\n");
    writeFileSync(pidFile, left);
    mkdirSync(lines[4] ?? "", { recursive: true, mode: 0o700 });
    writeFileSync(join(lines[4] ?? "", `.s.PGSQL.${lines[3]}.lock`), left);
    const server = await start();
    assert.deepEqual(
      await query(server.url.reveal(), "select 1 as one"),
      [{ one: 1 }],
      `with pid ${pid}`,
    );
    await server.stop();
  }
  writeFileSync(pidFile, "");
  assert.ok((await start()).pid(), "with a torn file");
});

test("a making of the database that was interrupted is begun anew", async (t) => {
  const folder = temporaryFolder(t, "halfway");
  const child = startChild(t, folder);
  const postgres = join(folder, "postgres");
  const unfinished = await until("initdb is half-way", () => {
    const names = existsSync(postgres) ? readdirSync(postgres) : [];
    return names.find(
      (name) => name.startsWith("data.new-") && existsSync(join(postgres, name, "PG_VERSION")),
    );
  });
  await killAndWait(child);
  assert.equal(existsSync(join(postgres, "data")), false, "nothing that looks finished");
  const server = await place(t, folder).start();
  assert.deepEqual(await query(server.url.reveal(), "select 1 as one"), [{ one: 1 }]);
  assert.equal(existsSync(join(postgres, unfinished)), false);
});

test("a second platform on the data folder is refused, with the first one's process id, until that one is dead", async (t) => {
  const folder = temporaryFolder(t, "locked");
  const child = startChild(t, folder);
  await once(child.stdout ?? assert.fail(), "data");
  const refusal = new RegExp(
    `process ${child.pid}\\) is already using the data folder ${folder}.*SLIPWAY_DATA_DIR`,
  );
  assert.throws(() => lockFolder(join(folder, "slipway.lock")), {
    name: "CannotStart",
    message: refusal,
  });
  await killAndWait(child);
  const lock = lockFolder(join(folder, "slipway.lock"));
  assert.throws(
    () => lockFolder(join(folder, "slipway.lock")),
    new RegExp(`process ${process.pid}`),
  );
  lock.release();
  lockFolder(join(folder, "slipway.lock")).release();
  // The killed platform's server notices by itself.
  const pidFile = join(folder, "postgres/data/postmaster.pid");
  await until("its server has stopped", () => !existsSync(pidFile));
});

test("a data folder that cannot be made is refused with the reason and the setting's name", (t) => {
  const folder = temporaryFolder(t, "embedded");
  writeFileSync(join(folder, "file"), "");
  // Below /proc nothing can be made, and what asks for all parents at once is never told so.
  const places = [
    join(folder, "file"),
    join(folder, "file", "below"),
    ...(existsSync("/proc/self") ? ["/proc/none/data"] : []),
  ];
  for (const place of places) {
    const refusal = {
      name: "CannotStart",
      message: /^The data folder .* cannot be used: .*SLIPWAY_DATA_DIR/,
    };
    assert.throws(() => lockFolder(join(place, "slipway.lock")), refusal, place);
  }
  lockFolder(join(folder, "a", "b", "slipway.lock")).release();
  assert.equal(statSync(join(folder, "a", "b")).mode & 0o777, 0o700);
});

test("a data folder whose path is too long for a socket works; the socket's folder goes with the stop", async (t) => {
  const folder = join(temporaryFolder(t, "long"), "x".repeat(120));
  const { start } = place(t, folder);
  const server = await start();
  const host = new URL(server.url.reveal()).searchParams.get("host") ?? "";
  assert.ok(Buffer.byteLength(host) < 100, host);
  assert.equal(statSync(host).mode & 0o777, 0o700);
  assert.deepEqual(await query(server.url.reveal(), "select 1 as one"), [{ one: 1 }]);
  await server.stop();
  assert.equal(existsSync(host), false);
  assert.ok(existsSync(dirname(host)));
});

test("why a server does not start is told, whatever its log has from before", async (t) => {
  const { start, folder } = place(t);
  await (await start()).stop();
  appendFileSync(join(folder, "postgres/server.log"), `${"ä".repeat(20_000)}\n`);
  appendFileSync(join(folder, "postgres/data/postgresql.conf"), "no_such_setting = 1\n");
  await assert.rejects(start(), {
    name: "CannotStart",
    message: /It said: .*unrecognized configuration parameter "no_such_setting"/s,
  });
});

test("a database of another PostgreSQL version is refused by name, and so is a folder that holds none", async (t) => {
  const { start, folder } = place(t);
  await (await start()).stop();
  const versionFile = join(folder, "postgres/data/PG_VERSION");
  writeFileSync(versionFile, "14\n");
  await assert.rejects(start(), {
    name: "CannotStart",
    message: /created by PostgreSQL 14, but .* runs 18/,
  });
  const empty = place(t);
  mkdirSync(join(empty.folder, "postgres/data"), { recursive: true });
  await assert.rejects(empty.start(), {
    name: "CannotStart",
    message: /contains no PostgreSQL database/,
  });
});
