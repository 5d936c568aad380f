// The first start and later ones, with the crashes that can fall between its steps, and the secret
// key.
import assert from "node:assert/strict";
import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import { SigningKeys } from "#accounts/keys.ts";
import { isPassword } from "#accounts/passwords.ts";
import { TokenCheck } from "#accounts/token-check.ts";
import { listEntries } from "#audit/audit-store.ts";
import { bootstrap, type BootstrapFile } from "#bootstrap.ts";
import { sealedColumns } from "#platform-sealed.ts";
import { openSealer } from "#store/secret-key.ts";
import type { Db } from "#store/database.ts";
import { personLookup } from "#people/person-lookup.ts";
import { testDatabase } from "#test/support/database.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import "#test/support/leftovers.ts";

const baseUrl = "http://127.0.0.1:7070";
const localUrl = "http://127.0.0.1:7071";

/** One start of a platform on the folder, as far as bootstrap goes. */
async function start(db: Db, folder: string, url = baseUrl): Promise<SigningKeys> {
  const sealer = await openSealer(db, {
    secretKeys: null,
    secretKeyFile: join(folder, "secret.key"),
    sealedColumns,
  });
  const keys = new SigningKeys({ sealer, clock: systemClock });
  const file = join(folder, "bootstrap.json");
  await bootstrap({ db, keys, file, baseUrl: url, localUrl, clock: systemClock, log: silentLog });
  return keys;
}

function readBootstrap(folder: string): BootstrapFile {
  return JSON.parse(readFileSync(join(folder, "bootstrap.json"), "utf8")) as BootstrapFile;
}

async function kindsOf(
  db: Db,
  keys: SigningKeys,
  file: BootstrapFile,
): Promise<(string | undefined)[]> {
  const check = new TokenCheck({
    db,
    keys,
    people: personLookup(db),
    notifications: { listen: () => () => undefined },
    clock: systemClock,
  });
  const tokens = [file.serviceAccountToken, file.inferenceToken, file.operatorToken];
  const callers = await Promise.all(tokens.map((token) => check.check(token)));
  return callers.map((caller) => caller?.kind);
}

async function setup(t: TestContext): Promise<{ db: Db; folder: string }> {
  const { db } = await testDatabase(t);
  return { db, folder: temporaryFolder(t, "bootstrap") };
}

const allKinds = ["service_account", "inference", "operator"];

test("the first start makes an owner, a project and tokens that work, and tells them in a private file", async (t) => {
  const { db, folder } = await setup(t);
  const keys = await start(db, folder);
  const file = readBootstrap(folder);
  assert.deepEqual(Object.keys(file), [
    "baseUrl",
    "apiUrl",
    "dashboardUrl",
    "localUrl",
    "projectId",
    "ownerEmail",
    "ownerPassword",
    "serviceAccountToken",
    "inferenceToken",
    "operatorToken",
  ]);
  assert.deepEqual([file.baseUrl, file.apiUrl, file.localUrl], [baseUrl, baseUrl, localUrl]);
  assert.deepEqual(await kindsOf(db, keys, file), allKinds);
  const owner = await db
    .selectFrom("people")
    .innerJoin("members", "members.person_id", "people.id")
    .innerJoin("person_accounts", "person_accounts.person_id", "people.id")
    .select(["people.email", "password_hash", "role", "project_id"])
    .executeTakeFirstOrThrow();
  assert.deepEqual(
    [owner.email, owner.role, owner.project_id],
    ["owner@localhost", "owner", file.projectId],
  );
  assert.ok(await isPassword(file.ownerPassword, owner.password_hash ?? ""));
  for (const name of ["bootstrap.json", "secret.key"])
    assert.equal(statSync(join(folder, name)).mode & 0o777, 0o600);
});

test("what the first start did is in the audit log, without a secret", async (t) => {
  const { db, folder } = await setup(t);
  await start(db, folder);
  const { projectId, ...file } = readBootstrap(folder);
  const id = projectId as Parameters<typeof listEntries>[1]["projectId"];
  const rows = await listEntries(db, { projectId: id, limit: 50 });
  assert.deepEqual(rows.map((row) => row.action).toSorted(), [
    "platform.bootstrap",
    "project.create",
    "token.create",
    "token.create",
  ]);
  const everything = JSON.stringify(await db.selectFrom("audit_log").selectAll().execute());
  for (const secret of [file.ownerPassword, file.serviceAccountToken, file.operatorToken]) {
    assert.equal(everything.includes(secret), false);
  }
});

test("later starts change nothing but the URLs, and respect that the file was removed", async (t) => {
  const { db, folder } = await setup(t);
  await start(db, folder);
  const first = readBootstrap(folder);
  await start(db, folder, "https://slipway.example.test/base");
  assert.deepEqual(readBootstrap(folder), {
    ...first,
    baseUrl: "https://slipway.example.test/base",
    apiUrl: "https://slipway.example.test/base",
    dashboardUrl: "https://slipway.example.test/base/dashboard",
  });
  rmSync(join(folder, "bootstrap.json"));
  await start(db, folder);
  assert.equal(existsSync(join(folder, "bootstrap.json")), false);
  assert.equal((await db.selectFrom("projects").selectAll().execute()).length, 1);
});

test("a crash between the commit and the file's final name loses no token", async (t) => {
  const { db, folder } = await setup(t);
  const file = join(folder, "bootstrap.json");
  await start(db, folder);
  const before = readBootstrap(folder);
  renameSync(file, `${file}.pending`);
  const keys = await start(db, folder);
  assert.deepEqual(readBootstrap(folder), before);
  assert.deepEqual(await kindsOf(db, keys, readBootstrap(folder)), allKinds);
  assert.equal(existsSync(`${file}.pending`), false);
});

test("a crash before the commit leaves nothing that looks valid", async (t) => {
  const { db, folder } = await setup(t);
  const file = join(folder, "bootstrap.json");
  const never = { baseUrl, projectId: "p-00000000", serviceAccountToken: "never committed" };
  writeFileSync(`${file}.pending`, JSON.stringify(never));
  const keys = await start(db, folder);
  assert.notEqual(readBootstrap(folder).projectId, "p-00000000");
  assert.deepEqual(await kindsOf(db, keys, readBootstrap(folder)), allKinds);
});

test("the file of another database is moved aside, not overwritten", async (t) => {
  const { db, folder } = await setup(t);
  await start(db, folder);
  const old = readBootstrap(folder);
  const { db: other } = await testDatabase(t);
  await start(other, folder);
  assert.notEqual(readBootstrap(folder).projectId, old.projectId);
  const kept = JSON.parse(
    readFileSync(join(folder, `bootstrap.${old.projectId}.json`), "utf8"),
  ) as BootstrapFile;
  assert.deepEqual(kept, old);
});

test("two platforms that start at once on one empty database make one project", async (t) => {
  const { db } = await setup(t);
  const folders = [temporaryFolder(t, "a"), temporaryFolder(t, "b")];
  const key = [new Secret("33".repeat(32))];
  await Promise.all(
    folders.map(async (folder) => {
      const sealer = await openSealer(db, {
        secretKeys: key,
        secretKeyFile: join(folder, "secret.key"),
        sealedColumns,
      });
      const keys = new SigningKeys({ sealer, clock: systemClock });
      const file = join(folder, "bootstrap.json");
      await bootstrap({ db, keys, file, baseUrl, localUrl, clock: systemClock, log: silentLog });
      assert.ok(keys.current().id);
    }),
  );
  assert.equal((await db.selectFrom("projects").selectAll().execute()).length, 1);
  assert.equal(folders.filter((folder) => existsSync(join(folder, "bootstrap.json"))).length, 1);
});

test("a database that holds secrets is refused without their key, with another key, and taken with both", async (t) => {
  const { db, folder } = await setup(t);
  await start(db, folder);
  const secretKeyFile = join(folder, "secret.key");
  const madeKey = readFileSync(secretKeyFile, "utf8").trim();
  const otherKey = "ab".repeat(32);
  const open = (...keys: string[]) =>
    openSealer(db, {
      secretKeys: keys.length === 0 ? null : keys.map((key) => new Secret(key)),
      secretKeyFile,
      sealedColumns,
    });
  await assert.rejects(open(otherKey), (error: Error) => {
    assert.match(
      error.message,
      /contains secrets of another secret key \(id [0-9a-f]{8}\) than SLIPWAY_SECRET_KEY has/,
    );
    return error.name === "CannotStart" && !error.message.includes(otherKey);
  });
  assert.equal((await open(otherKey, madeKey)).keyIds().length, 2);
  rmSync(secretKeyFile);
  await assert.rejects(open(), { name: "CannotStart", message: /secret\.key is missing/ });
  assert.equal(existsSync(secretKeyFile), false, "no new key hides the loss");
  writeFileSync(secretKeyFile, "not a key");
  await assert.rejects(open(), {
    name: "CannotStart",
    message: /must contain a secret key of 64 hexadecimal digits/,
  });
});
