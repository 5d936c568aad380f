// The commands on files of volumes against a real management API.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { startCliStage } from "./support/cli-stage.ts";
import { temporaryFolder } from "./support/folder.ts";

test("files go up in parts, are listed, come down byte for byte, and are removed", async (t) => {
  const { done, refused } = await startCliStage(t);
  const folder = temporaryFolder(t, "files");
  const bytes = randomBytes(12_000_000);
  writeFileSync(join(folder, "model.bin"), bytes);
  writeFileSync(join(folder, "empty"), "");
  assert.match(
    (await done("volumes")).stdout,
    /^VOLUME +APPS SEE IT AT +USED +SIZE\ndefault +\/persistent-storage +0 B /,
  );
  assert.equal((await done("volumes", "ls")).stderr, "There are no files.\n");
  const up = await done("volumes", "upload", join(folder, "model.bin"), "models/");
  assert.match(up.stderr, /^Uploaded models\/model\.bin, 12\.0 MB\./);
  assert.equal(
    (await done("volumes", "upload", join(folder, "empty"), "--json")).json().path,
    "empty",
  );
  assert.match(
    (await done("volumes", "ls")).stdout,
    /^NAME +SIZE +CHANGED\nempty +0 B +\d{4}-.*\nmodels\/ +\d{4}-/,
  );
  const copy = join(folder, "copy.bin");
  assert.match(
    (await done("volumes", "download", "models/model.bin", copy)).stderr,
    /^Wrote .*copy\.bin, 12\.0 MB\.\n$/,
  );
  assert.ok(readFileSync(copy).equals(bytes));
  assert.match(
    await refused(2, "volumes", "download", "empty", copy),
    /^Replace .*copy\.bin\?.*add --yes/,
  );
  await done("volumes", "download", "empty", copy, "--yes");
  assert.equal(readFileSync(copy).length, 0);
  assert.deepEqual(readdirSync(folder).toSorted(), ["copy.bin", "empty", "model.bin"]);

  assert.match(
    await refused(4, "volumes", "download", "models/other.bin"),
    /To list the files: slipway volumes ls/,
  );
  assert.match(await refused(2, "volumes", "upload", join(folder, "not")), /cannot be read/);
  assert.match(
    await refused(2, "volumes", "resize", "much"),
    /must be a whole number of gigabytes/,
  );
  for (const size of ["4 GB", "5gb", "5"]) {
    const said = `The volume default may hold ${Number.parseInt(size)} GB.\n`;
    assert.equal((await done("volumes", "resize", size)).stderr, said);
  }
  assert.match(
    await refused(2, "volumes", "remove", "models/"),
    /Remove models\/ and all that is in it\?.*add --yes/,
  );
  await done("volumes", "remove", "models/", "--yes");
  assert.equal((await done("volumes", "ls", "--json")).json().length, 1);
});

test("a folder goes up with all that is in it, links to files too", async (t) => {
  const { done, refused, storageDir, projectId } = await startCliStage(t);
  const folder = join(temporaryFolder(t, "files"), "model");
  mkdirSync(join(folder, "empty"), { recursive: true });
  assert.match(await refused(2, "volumes", "upload", folder), /has no files/);
  mkdirSync(join(folder, "a b", "c"), { recursive: true });
  for (let at = 0; at < 40; at++)
    writeFileSync(join(folder, "a b", "c", `${at}.txt`), `file ${at}`);
  symlinkSync(join("a b", "c", "7.txt"), join(folder, "link"));
  const up = await done("volumes", "upload", `${folder}/`, "models/");
  assert.match(
    up.stderr,
    /^Uploaded models\/model, 41 files, 276 B\. Apps see it at \/persistent-storage\/models\/model\n$/,
  );
  const there = join(storageDir, projectId, "models", "model");
  assert.equal(readFileSync(join(there, "a b", "c", "39.txt"), "utf8"), "file 39");
  assert.equal(readFileSync(join(there, "link"), "utf8"), "file 7");
  symlinkSync("a b", join(folder, "to-folder"));
  assert.match(
    await refused(2, "volumes", "upload", folder),
    /to-folder is neither a file nor a folder of its own/,
  );
  rmSync(join(folder, "to-folder"));
  symlinkSync("nowhere", join(folder, "broken"));
  assert.match(await refused(2, "volumes", "upload", folder), /broken is a link to nothing/);
  rmSync(join(folder, "broken"));
  writeFileSync(Buffer.from(join(folder, "bad\xff.txt"), "latin1"), "x");
  assert.match(
    await refused(1, "volumes", "upload", folder),
    /^"[^"]*bad\ufffd\.txt" has a name that is not UTF-8\. .*\n$/,
  );
});
