// Backups that somebody has made up who knows only the public key: they are refused before
// anything is written.
import assert from "node:assert/strict";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { test } from "node:test";
import { generateIdentity, identityToRecipient } from "age-encryption";
import { pino } from "pino";
import { systemClock } from "#lib/clock.ts";
import { writeArchive } from "./archive.ts";
import type { BackupFolder } from "./backup-folder.ts";
import { checkBackup } from "./restore.ts";

const key = await generateIdentity();
const publicKey = await identityToRecipient(key);
const manifest = JSON.stringify({
  form: 1,
  version: "0.3.0",
  at: "2027-01-01T00:00:00.000Z",
  database: { migrations: [], tables: [] },
});

/** Checks a backup that consists of these parts. */
async function check(...parts: readonly (readonly [string, Buffer | string])[]): Promise<unknown> {
  const to = new PassThrough();
  const [bytes] = await Promise.all([
    buffer(to),
    writeArchive(to, [publicKey], async (add) => {
      for (const [name, content] of parts) await add(name, Readable.from([Buffer.from(content)]));
    }),
  ]);
  const folder: Pick<BackupFolder, "read"> = {
    read: () => Promise.resolve(Readable.from([bytes])),
  };
  return await checkBackup({
    from: { folder: folder as BackupFolder, name: "forged.age" },
    privateKeys: [key],
    log: pino({ level: "silent" }),
    clock: systemClock,
    signal: AbortSignal.timeout(60_000),
  });
}

const first = ["manifest.json", manifest] as const;

test("a part that comes twice is refused: a second tar could follow a link of the first", async () => {
  await assert.rejects(
    check(first, ["files.tar", "one"], ["secret.key", "x"], ["files.tar", "two"]),
    /No platform has written this backup: do not restore it\. It has files\.tar twice\./,
  );
});

test("a part that no backup holds is refused", async () => {
  await assert.rejects(
    check(first, ["postgres.tar", "x"]),
    /It has "postgres\.tar", which no backup/,
  );
  await assert.rejects(check(first, ["database/unknown", "x"]), /It has "database\/unknown"/);
});

test("a manifest that is none, or has no end, is refused", async () => {
  await assert.rejects(check(["manifest.json", "{"]), /a form that this version does not know/);
  await assert.rejects(check(["files.tar", "x"]), /a form that this version does not know/);
  await assert.rejects(
    check(["manifest.json", Buffer.alloc(17_000_000, " ")]),
    /Its part manifest\.json is longer than 16777216 bytes/,
  );
});
