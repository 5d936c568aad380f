// The addresses of backups: what names a file, and what an operator gets to read otherwise.
import assert from "node:assert/strict";
import { resolve } from "node:path";
import { test } from "node:test";
import { Secret } from "#lib/secret.ts";
import { readBackupAddress } from "./backup-address.ts";

const s3 = {
  endpoint: "https://objects.example.org",
  region: "auto",
  accessKeyId: new Secret("id"),
  secretAccessKey: new Secret("secret"),
};
const shown = (address: string): string => {
  const { folder, name } = readBackupAddress(address, s3);
  return folder.addressOf(name);
};

test("a path names a file of this machine, an address one of a bucket", () => {
  assert.equal(shown("some/day.age"), resolve("some/day.age"));
  assert.equal(shown("s3://own/day.age"), "s3://own/day.age");
  assert.equal(shown("s3://own/some/folder/day.age"), "s3://own/some/folder/day.age");
});

test("what names no file, no bucket or no object store is refused with what to do", () => {
  for (const address of ["", "some/", "s3://own", "s3://own/", "s3:///"])
    assert.throws(() => shown(address), /names no file/, address);
  assert.throws(() => shown("s3:/own/day.age"), /is no address of an object store/);
  assert.throws(() => shown("s3://Own!/day.age"), /is no address of an object store/);
  assert.throws(
    () => readBackupAddress("s3://own/day.age", null),
    /set SLIPWAY_BACKUP_S3_ACCESS_KEY_ID/,
  );
});
