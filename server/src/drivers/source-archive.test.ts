// The archive of an app's files: what comes out at the other end, also of hostile files, and how it
// ends when one end fails or is aborted.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import * as fs from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { test, type TestContext } from "node:test";
import { temporaryFolder } from "#test/support/folder.ts";
import "#test/support/leftovers.ts";
import { rawTar, type TarEntry } from "#test/support/raw-tar.ts";
import { noSmallDisk, smallDisk } from "#test/support/small-disk.ts";
import { BuildFailed, type BuildSource } from "./builder.ts";
import { firstChild } from "./process/process-table.ts";
import { folderSource, unpackSource } from "./source-archive.ts";

const { signal: live } = new AbortController();

function folders(t: TestContext) {
  const folder = temporaryFolder(t, "archive");
  const source = join(folder, "source");
  fs.mkdirSync(source);
  return { folder, source, unpacked: join(folder, "unpacked") };
}

/** A source whose archive has these bytes. */
function sourceOf(bytes: Iterable<Buffer> | AsyncIterable<Buffer>): BuildSource {
  return { archive: () => Readable.from(bytes, { objectMode: false }) };
}

/** A file whose archive is far larger than what pipes hold. It takes no space on the disk. */
function writeLargeFile(path: string): void {
  fs.writeFileSync(path, "begin");
  fs.truncateSync(path, 64e6);
}

function assertNoChild(): void {
  assert.equal(firstChild(process.pid), null, "a program still runs");
}

test("links, modes, empty folders and names of any bytes come out as they went in", async (t) => {
  const { folder, source, unpacked } = folders(t);
  const names = ["-rf", "new\nline", "back\\slash", "*?[", "ü", "n".repeat(255)];
  const bytes = Buffer.from([0xff, 0xfe, 0x0a]);
  for (const name of names) fs.writeFileSync(join(source, name), name);
  fs.writeFileSync(Buffer.concat([Buffer.from(`${source}/`), bytes]), "bytes");
  const deep = ["a", "b", "c"].map((letter) => letter.repeat(200)).join("/");
  fs.mkdirSync(join(source, deep), { recursive: true });
  fs.writeFileSync(join(source, deep, "file"), "deep");
  fs.writeFileSync(join(folder, "outside"), "outside");
  const links = {
    inside: "-rf",
    outside: "../outside",
    absolute: "/etc",
    dangling: "x".repeat(300),
  };
  for (const [name, target] of Object.entries(links)) fs.symlinkSync(target, join(source, name));
  const modes = { program: 0o755, private: 0o600, "set-user": 0o4711 };
  for (const [name, mode] of Object.entries(modes)) {
    fs.writeFileSync(join(source, name), "");
    fs.chmodSync(join(source, name), mode);
  }
  fs.mkdirSync(join(source, "read-only"));
  fs.writeFileSync(join(source, "read-only/file"), "");
  fs.chmodSync(join(source, "read-only"), 0o555);
  fs.mkdirSync(join(source, "empty"), { mode: 0o700 });
  fs.utimesSync(join(source, "program"), 0, 0);
  fs.chmodSync(source, 0o711);

  await unpackSource(folderSource(source), unpacked, live);

  const list = (path: string): string[] => fs.readdirSync(path, "latin1").toSorted();
  assert.deepEqual(list(unpacked), list(source));
  for (const name of names) assert.equal(fs.readFileSync(join(unpacked, name), "utf8"), name);
  const path = Buffer.concat([Buffer.from(`${unpacked}/`), bytes]);
  assert.equal(fs.readFileSync(path, "utf8"), "bytes");
  assert.equal(fs.readFileSync(join(unpacked, deep, "file"), "utf8"), "deep");
  for (const [name, target] of Object.entries(links))
    assert.equal(fs.readlinkSync(join(unpacked, name)), target);
  const all = { ...modes, "read-only": 0o555, empty: 0o700, ".": 0o711 };
  for (const [name, mode] of Object.entries(all))
    assert.equal(fs.statSync(join(unpacked, name)).mode & 0o7777, mode, name);
  assert.deepEqual(list(join(unpacked, "empty")), []);
  assert.ok(fs.statSync(join(unpacked, "program")).mtimeMs > 0, "times are not kept");
  assertNoChild();
});

test("a folder without files becomes a folder without files", async (t) => {
  const { source, unpacked } = folders(t);
  await unpackSource(folderSource(source), unpacked, live);
  assert.deepEqual(fs.readdirSync(unpacked), []);
});

test("a source can be packed again for another try", async (t) => {
  const { source, unpacked } = folders(t);
  fs.writeFileSync(join(source, "main.py"), "");
  const both = folderSource(source);
  await unpackSource(both, unpacked, live);
  await unpackSource(both, `${unpacked}-again`, live);
  assert.deepEqual(fs.readdirSync(`${unpacked}-again`), ["main.py"]);
});

test("a pipe in the app's files holds nobody up, and a file with holes has its content", async (t) => {
  const { source, unpacked } = folders(t);
  execFileSync("mkfifo", [join(source, "pipe")]);
  writeLargeFile(join(source, "holes"));
  await unpackSource(folderSource(source), unpacked, live);
  assert.ok(fs.statSync(join(unpacked, "pipe")).isFIFO());
  const file = (folder: string): Buffer => fs.readFileSync(join(folder, "holes"));
  assert.ok(file(unpacked).equals(file(source)));
});

test("an archive writes nothing outside of its folder, whatever it holds", async (t) => {
  const { folder } = folders(t);
  const outside = join(folder, "outside");
  fs.mkdirSync(outside);
  fs.writeFileSync(join(outside, "kept"), "kept");
  const link = (linkName: string): TarEntry => ({ name: "./link", type: "2", linkName });
  const archives: readonly (readonly TarEntry[])[] = [
    [link(outside), { name: "./link/file", content: "x" }],
    [link("../outside"), { name: "./link/file", content: "x" }],
    [link("../outside/kept"), { name: "./link", content: "x" }],
    [link("../outside"), { name: "./link", type: "5" }, { name: "./link/file", content: "x" }],
    [
      { name: "./hard", type: "1", linkName: "../outside/kept" },
      { name: "./hard", content: "x" },
    ],
    [{ name: "../outside/file", content: "x" }],
    [{ name: join(outside, "file"), content: "x" }],
  ];
  for (const [index, entries] of archives.entries()) {
    const unpacked = join(folder, `unpacked-${index}`);
    await unpackSource(sourceOf([rawTar(entries)]), unpacked, live).catch((error: unknown) => {
      assert.ok(error instanceof BuildFailed, String(error));
    });
    assert.deepEqual(fs.readdirSync(outside), ["kept"], `archive ${index}`);
    assert.equal(fs.readFileSync(join(outside, "kept"), "utf8"), "kept", `archive ${index}`);
  }
});

test("an abort ends both ends with its reason", async (t) => {
  const { source, unpacked } = folders(t);
  writeLargeFile(join(source, "large"));
  const abort = new AbortController();
  const reason = new Error("enough");
  const packed = folderSource(source);
  const archive = (signal: AbortSignal): Readable =>
    packed.archive(signal).once("readable", () => abort.abort(reason));
  await assert.rejects(unpackSource({ archive }, unpacked, abort.signal), reason);
  assertNoChild();
  await assert.rejects(unpackSource(packed, `${unpacked}-late`, abort.signal), reason);
  assertNoChild();
});

test("an abort also ends an archive that stands still", async (t) => {
  const { unpacked } = folders(t);
  const abort = new AbortController();
  const reason = new Error("enough");
  const still: BuildSource = {
    archive: (signal) => {
      const stream = new Readable({ read: () => abort.abort(reason) });
      signal.addEventListener("abort", () => stream.destroy(reason));
      return stream;
    },
  };
  await assert.rejects(unpackSource(still, unpacked, abort.signal), reason);
  assertNoChild();
});

test("an error while it is packed is the reason, and what came before it is no whole archive", async (t) => {
  const { folder, source, unpacked } = folders(t);
  writeLargeFile(join(source, "large"));
  async function* broken(): AsyncGenerator<Buffer> {
    yield rawTar([{ name: "./main.py", content: "x" }]);
    for (let more = 0; more < 20; more++) yield Buffer.alloc(100_000);
    throw new Error("the connection broke");
  }
  await assert.rejects(unpackSource(sourceOf(broken()), unpacked, live), {
    name: "Error",
    message: "the connection broke",
  });
  assertNoChild();
  const archive = folderSource(source).archive(live);
  archive.once("data", () => fs.truncateSync(join(source, "large"), 0));
  await assert.rejects(buffer(archive), /^Error: tar: \.\/large: .*shrank/);
  await assert.rejects(buffer(folderSource(join(folder, "gone")).archive(live)), {
    code: "ENOENT",
  });
  assertNoChild();
});

test("an archive that nobody reads to its end leaves no program behind", async (t) => {
  const { source } = folders(t);
  writeLargeFile(join(source, "large"));
  const archive = folderSource(source).archive(live);
  for await (const chunk of archive) {
    assert.ok((chunk as Buffer).length > 0);
    break;
  }
  await new Promise((resolve) => (archive.closed ? resolve(null) : archive.once("close", resolve)));
  assertNoChild();
});

test("what cannot be unpacked fails the build, and says why", async (t) => {
  const { source, unpacked } = folders(t);
  writeLargeFile(join(source, "large"));
  const noise = sourceOf([Buffer.alloc(100_000, "no archive")]);
  await assert.rejects(unpackSource(noise, unpacked, live), (error) => {
    assert.ok(error instanceof BuildFailed);
    assert.match(
      error.message,
      /^The app's files could not be unpacked \(tar: .*\)\. The operator/,
    );
    return true;
  });
  assertNoChild();
});

test("a full disk fails the build, and says so", { skip: noSmallDisk }, async (t) => {
  const { source } = folders(t);
  writeLargeFile(join(source, "large"));
  const disk = smallDisk(t, { megabytes: 4 });
  await assert.rejects(unpackSource(folderSource(source), join(disk, "unpacked"), live), {
    name: "BuildFailed",
    message: /\(tar: \.\/large: .*(?:Wrote only|No space left)/,
  });
  assertNoChild();
});
