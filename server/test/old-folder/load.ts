// The data folder of the version before, as `make.ts` left it: its files in a folder of the test,
// its rows in a database of the test. Paths are made to fit, and sessions last as long from now as
// they did from then; nothing else is another.
import assert from "node:assert/strict";
import {
  chmodSync,
  copyFileSync,
  lchownSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";
import { Client } from "pg";
import { PythonFinder } from "#drivers/process/python-find.ts";
import { silentLog } from "#lib/log.ts";
import type { Secret } from "#lib/secret.ts";
import { migrate } from "#store/migrate.ts";
import { emptyDatabase } from "#test/support/database.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { PlatformProcess } from "#test/support/platform-process.ts";
import { startReceiver, type WebhookReceiver } from "#test/support/webhook-receiver.ts";
import { folderMark, pythonMark, type KeptFile } from "./read.ts";
import { hooksAt, prices, settings, type Facts } from "./stage.ts";

const migrations = join(import.meta.dirname, "../../src/store/migrations");
const read = (name: string): string => readFileSync(join(import.meta.dirname, name), "utf8");

/** What the version before gave out and answered. */
export const facts = JSON.parse(read("facts.json")) as Facts;

/** An export of the audit log that it made. */
export const earlierExport = read("audit-export.ndjson");

/**
 * A platform of this version on that folder, which has not started yet; the way to its rows; where
 * its deliveries go.
 */
export type OldPlatform = {
  readonly platform: PlatformProcess;
  readonly database: Client;
  readonly receiver: WebhookReceiver;
};

/**
 * The receiver's place is one for all on the machine, so other runs of the same test wait here for
 * this one.
 */
export async function oldPlatform(t: TestContext): Promise<OldPlatform> {
  const dataDir = temporaryFolder(t, "old-folder");
  await makeFiles(dataDir);
  writeFileSync(join(dataDir, "prices.toml"), prices);
  const url = await emptyDatabase(t);
  const database = await makeRows(t, url, dataDir);
  const platform = new PlatformProcess(dataDir, {
    ...settings,
    SLIPWAY_PRICES_FILE: join(dataDir, "prices.toml"),
    SLIPWAY_DATABASE_URL: url.reveal(),
  });
  t.after(() => platform.remove());
  const receiver = await startReceiver(t, () => 200, hooksAt);
  return { platform, database, receiver };
}

async function makeFiles(dataDir: string): Promise<void> {
  const [python] = await new PythonFinder({
    environment: { PATH: process.env["PATH"] ?? "" },
  }).ofVersion("3.11");
  assert.ok(python, "the artifacts need Python 3.11");
  const fitting = (text: string): string =>
    text.replaceAll(folderMark, dataDir).replaceAll(pythonMark, dirname(python.path));
  const files = JSON.parse(read("folder.json")) as Record<string, KeptFile>;
  chmodSync(dataDir, 0o700);
  for (const [path, { mode, user, text, link }] of Object.entries(files)) {
    const place = join(dataDir, path);
    if (link !== undefined) symlinkSync(fitting(link), place);
    else if (text === undefined) mkdirSync(place);
    else writeFileSync(place, fitting(text));
    if (link === undefined) chmodSync(place, Number.parseInt(mode, 8));
    // Only root runs apps as users of their own.
    if (user !== undefined && process.getuid?.() === 0) lchownSync(place, user, user);
  }
}

/** By the migrations that were there, then without triggers, as `pg_restore` does. */
async function makeRows(t: TestContext, url: Secret, dataDir: string): Promise<Client> {
  const lines = read("database.txt").trimEnd().split("\n");
  const folder = temporaryFolder(t, "old-migrations");
  for (const line of lines) {
    const name = /^schema_migrations \{"name":"([\w-]+)"/.exec(line)?.[1];
    if (name !== undefined)
      copyFileSync(join(migrations, `${name}.sql`), join(folder, `${name}.sql`));
  }
  await migrate({ url, log: silentLog, folder });
  const database = new Client({ connectionString: url.reveal() });
  database.on("error", () => undefined);
  await database.connect();
  t.after(() => database.end());
  await database.query(
    "begin; set local session_replication_role = replica; delete from schema_migrations",
  );
  for (const line of lines) {
    const [name = "", ...rest] = line.split(" ");
    const value = rest.join(" ").replaceAll(folderMark, dataDir);
    if (name.startsWith("#"))
      await database.query("select setval($1::regclass, $2)", [name.slice(1), value]);
    else {
      const row = `select * from json_populate_record(null::${name}, $1)`;
      await database.query(`insert into ${name} overriding system value ${row}`, [value]);
    }
  }
  await database.query(
    "update person_sessions set expires_at = now() + (expires_at - created_at); commit",
  );
  return database;
}
