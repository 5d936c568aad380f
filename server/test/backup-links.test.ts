// Symbolic links in data folders: a linked folder is backed up with its files, a link whose files
// would be lost is refused, and a forged backup cannot lead a restored platform elsewhere.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createReadStream, createWriteStream } from "node:fs";
import * as fs from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { test, type TestContext } from "node:test";
import { readArchive, writeArchive } from "#backups/archive.ts";
import { emptyDatabase, testDatabase } from "./support/database.ts";
import { temporaryFolder } from "./support/folder.ts";
import { commandsAt } from "./support/slipway-command.ts";

/** The command line for a data folder whose storage is a link to a folder elsewhere. */
async function openLinked(t: TestContext) {
  const { url } = await testDatabase(t, { hasKey: true });
  const cwd = temporaryFolder(t, "links");
  const at = (...names: readonly string[]): string => join(cwd, ...names);
  for (const folder of ["data", "disk/shop/photos", "disk/.apps"])
    fs.mkdirSync(at(folder), { recursive: true, mode: 0o700 });
  fs.writeFileSync(at("disk/shop/photos/one"), "a photo", { mode: 0o640 });
  fs.symlinkSync("one", at("disk/shop/photos/newest"));
  fs.symlinkSync("../disk", at("data/storage"));
  const settings = { SLIPWAY_DATA_DIR: at("data"), SLIPWAY_DATABASE_URL: url.reveal() };
  const slipway = commandsAt(t, { cwd, env: settings });
  const run = async (words: string, env: Record<string, string> = {}) =>
    await slipway(words.split(" "), { env: { ...settings, ...env } }).ended;
  const done = async (words: string, env: Record<string, string> = {}): Promise<string> => {
    const { code, stdout, stderr } = await run(words, env);
    assert.equal(code, 0, stderr);
    return stdout.trim();
  };
  const refused = async (words: string, why: RegExp, env?: Record<string, string>) => {
    const { code, stderr } = await run(words, env);
    assert.equal(code, 1, stderr);
    assert.match(stderr, why);
  };
  const key = await done("backup --new-key own.key");
  const privateKey = /^AGE-SECRET-KEY-.*$/m.exec(fs.readFileSync(at("own.key"), "utf8"))?.[0] ?? "";
  return { at, done, refused, key, privateKey };
}

test("a folder that is a link to another disk is backed up with its files", async (t) => {
  const { at, done, key } = await openLinked(t);
  await done(`backup one.age --public-key ${key}`);
  const to = await emptyDatabase(t);
  await done("restore one.age --key own.key", {
    SLIPWAY_DATA_DIR: at("restored"),
    SLIPWAY_DATABASE_URL: to.reveal(),
  });
  const photos = at("restored/storage/shop/photos");
  assert.equal(fs.readFileSync(join(photos, "one"), "utf8"), "a photo");
  assert.equal(fs.lstatSync(join(photos, "one")).mode & 0o777, 0o640);
  assert.equal(fs.readlinkSync(join(photos, "newest")), "one");
  const storage = fs.lstatSync(at("restored/storage"));
  assert.ok(storage.isDirectory());
  assert.equal(storage.mode & 0o777, 0o700);
});

test("a link whose files a backup would not have is refused, and nothing is written", async (t) => {
  const { at, refused, key } = await openLinked(t);
  fs.symlinkSync("/mnt/large", at("disk/bakery"));
  await refused(
    `backup one.age --public-key ${key}`,
    /data\/storage\/bakery is a symbolic link to \/mnt\/large, whose files would not be in/,
  );
  fs.rmSync(at("disk"), { recursive: true });
  await refused(
    `backup one.age --public-key ${key}`,
    /data\/storage is a symbolic link to \.\.\/disk, .* If a disk is missing, mount it/,
  );
  assert.deepEqual(fs.readdirSync(at(".")).toSorted(), ["data", "own.key"]);
});

test("a forged backup whose folders lead elsewhere is not restored", async (t) => {
  const { at, done, refused, key, privateKey } = await openLinked(t);
  await done(`backup one.age --public-key ${key}`);
  fs.mkdirSync(at("target"));
  const to = await emptyDatabase(t);
  const into = { SLIPWAY_DATA_DIR: at("restored"), SLIPWAY_DATABASE_URL: to.reveal() };
  for (const [name, path] of Object.entries({ top: "storage", project: "storage/shop" })) {
    const folder = at(name);
    fs.mkdirSync(join(folder, path, ".."), { recursive: true });
    fs.symlinkSync(at("target"), join(folder, path));
    const files = execFileSync("tar", ["-c", "-C", folder, "storage"], { timeout: 20_000 });
    await writeArchive(createWriteStream(at(`${name}.age`)), [key], async (add) => {
      for await (const part of readArchive(createReadStream(at("one.age")), [privateKey]))
        await add(part.name, part.name === "files.tar" ? Readable.from([files]) : part.content);
    });
    await refused(
      `restore ${name}.age --key own.key`,
      new RegExp(`do not restore it\\. Its ${path} is a symbolic link`),
      into,
    );
    assert.deepEqual(fs.readdirSync(at("restored")), []);
  }
});

test("an unknown word is an error, and restores nothing", async (t) => {
  const { at, done, key } = await openLinked(t);
  await done(`backup one.age --public-key ${key}`);
  const to = await emptyDatabase(t);
  const program = [process.execPath, join(import.meta.dirname, "../src/backup-main.ts")];
  const slipway = commandsAt(t, {
    program,
    env: { SLIPWAY_DATA_DIR: at("restored"), SLIPWAY_DATABASE_URL: to.reveal() },
  });
  const { code, stderr } = await slipway(["restor", at("one.age"), "--key", at("own.key")]).ended;
  assert.equal(code, 1);
  assert.match(stderr, /^"restor" is nothing that this program does\. Give new-key, back-up/);
  assert.ok(!fs.existsSync(at("restored")));
});
