// Repositories that are made to harm whoever fetches them.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { Git } from "#deploy/git.ts";
import { Source } from "#deploy/source.ts";
import { BuildFailed } from "#drivers/builder.ts";
import { systemClock } from "#lib/clock.ts";
import { newBuildId, newProjectId } from "#lib/ids.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";

type Kind = "commit" | "tree" | "blob";

function idOf(kind: Kind, content: Buffer): Buffer {
  return createHash("sha1").update(`${kind} ${content.length}\0`).update(content).digest();
}

/** Seven bits in each byte, the lowest first, as packs have sizes. */
function sizeBytes(size: number): number[] {
  return size < 128 ? [size] : [(size & 127) | 128, ...sizeBytes(Math.floor(size / 128))];
}

/** One entry of a pack: kind in the pack's own numbers, size, content. `base`: what a difference is to. */
function packed(number: number, content: Buffer, base: Buffer = Buffer.alloc(0)): Buffer {
  const first = (number << 4) | (content.length & 15);
  const rest = content.length >> 4;
  const head = rest === 0 ? [first] : [first | 128, ...sizeBytes(rest)];
  return Buffer.concat([Buffer.from(head), base, deflateSync(content)]);
}

/** A pack of a commit whose file is a megabyte many times over, sent as a difference of some bytes; and the commit's id. */
function bombOf(megabytes: number): { pack: Buffer; commit: string } {
  const base = Buffer.alloc(1 << 20);
  const large = createHash("sha1").update(`blob ${base.length * megabytes}\0`);
  for (let count = 0; count < megabytes; count++) large.update(base);
  const copyAll = Array.from({ length: megabytes }, () => [0xc0, 0x10]).flat();
  const difference = Buffer.from([...sizeBytes(base.length), ...sizeBytes(base.length * megabytes), ...copyAll]);
  const tree = Buffer.concat([
    ...[Buffer.from("100644 a\0"), idOf("blob", base)],
    ...[Buffer.from("100644 b\0"), large.digest()],
  ]);
  const who = "a <a@example.com> 1 +0000";
  const commit = Buffer.from(`tree ${idOf("tree", tree).toString("hex")}\nauthor ${who}\ncommitter ${who}\n\nx\n`);
  const entries = [packed(1, commit), packed(2, tree), packed(3, base), packed(7, difference, idOf("blob", base))];
  const head = Buffer.from([...Buffer.from("PACK"), 0, 0, 0, 2, 0, 0, 0, entries.length]);
  const content = Buffer.concat([head, ...entries]);
  const pack = Buffer.concat([content, createHash("sha1").update(content).digest()]);
  return { pack, commit: idOf("commit", commit).toString("hex") };
}

test("an object that is a kilobyte on the way and unpacks to more than is allowed is refused, and says why", async (t) => {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", { "main.py": "" }, "other");
  const { pack, commit } = bombOf(64);
  assert.ok(pack.length < 4096);
  await server.git("acme", "app", ["index-pack", "--stdin"], pack);
  await server.git("acme", "app", ["update-ref", "refs/heads/main", commit]);
  const open = (objectBytesMax: number): Source =>
    new Source({
      git: new Git({ toolEnvironment: { PATH: process.env["PATH"] ?? "" }, objectBytesMax }),
      urlTemplate: server.urlTemplate,
      timeoutMs: 30_000,
      bytesMax: 200_000_000,
      sourcesDir: temporaryFolder(t, "source"),
      findCredential: () => Promise.resolve(null),
      clock: systemClock,
    });
  const request = {
    ...{ projectId: newProjectId(), buildId: newBuildId(), gitRepo: "acme/app", gitBranch: "main", gitPath: "" },
    ...{ commit: null, log: () => undefined, signal: new AbortController().signal },
  };
  await assert.rejects(open(32 << 20).fetch(request), (error) => {
    assert.ok(error instanceof BuildFailed);
    assert.match(error.message, /acme\/app holds an object that takes more memory to unpack/);
    return true;
  });
  assert.equal((await open(128 << 20).fetch(request)).commit, commit);
});
