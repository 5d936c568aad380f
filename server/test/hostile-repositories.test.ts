// Repositories and git hosts that are made to harm whoever fetches from them: each is refused in
// words, by what it holds or by what git may take, and nothing of it is left.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { constants, deflateRawSync, gzipSync } from "node:zlib";
import { GitSource } from "#deploy/sources/git.ts";
import { cpuSecondsFor, Git } from "#deploy/sources/git-command.ts";
import { BuildFailed } from "#drivers/builder.ts";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { OutwardGuard } from "#lib/outward-guard.ts";
import { newBuildId, newProjectId } from "#lib/ids.ts";
import { drawCases } from "#test/support/drawn-cases.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { Pack, sizeBytes } from "#test/support/git-pack.ts";
import { gitLine, startHostileHost, type HostileAnswers } from "#test/support/hostile-git-host.ts";

const megabyte = 1 << 20;

type Limits = {
  readonly objectBytesMax?: number;
  readonly cpuSecondsMax?: number;
  readonly timeoutMs?: number;
};

/** Fetches from the host; the error, or the folder that it gave. */
async function fetchFrom(t: TestContext, answers: HostileAnswers, limits: Limits = {}) {
  const sourcesDir = temporaryFolder(t, "source");
  const lines: string[] = [];
  const source = new GitSource({
    git: new Git({
      toolEnvironment: { PATH: process.env["PATH"] ?? "" },
      objectBytesMax: 64 * megabyte,
      cpuSecondsMax: cpuSecondsFor(200_000_000),
      ...limits,
    }),
    hosts: { defaultUrl: await startHostileHost(t, answers), otherUrls: [] },
    timeoutMs: limits.timeoutMs ?? 120_000,
    bytesMax: 200_000_000,
    sourcesDir,
    findCredential: () => Promise.resolve(null),
    guard: new OutwardGuard({ allow: [] }),
    clock: systemClock,
    log: silentLog,
  });
  const request = {
    projectId: newProjectId(),
    buildId: newBuildId(),
    settings: { gitRepo: "acme/app", gitBranch: "main", gitPath: "" },
    isBranchGiven: true,
    fetchesOf: () => ({ gitSubmodules: false, gitLfs: false }),
    checkoutOf: null,
    commit: null,
    signal: new AbortController().signal,
    log: (_stage: string, _stream: string, text: string): void => void lines.push(text),
  };
  const outcome = await source.fetch(request).then(
    ({ appDir }) => ({ appDir, refusal: null }),
    (error: unknown) => {
      assert.ok(error instanceof BuildFailed, String(error));
      return { appDir: null, refusal: error.message };
    },
  );
  return { ...outcome, lines, sourcesDir };
}

/** A repository with this as its root. */
function repository(fill: (pack: Pack) => Buffer): HostileAnswers {
  const pack = new Pack();
  const commit = pack.addCommit(fill(pack));
  return { commit, pack: pack.bytes() };
}

/** Folders in each other, each holding the one before `times` times over. */
function nested(
  pack: Pack,
  inner: Buffer,
  { levels, times }: { levels: number; times: number },
): Buffer {
  let tree = inner;
  for (let level = 0; level < levels; level++) {
    const same = tree;
    tree = pack.addTree(
      Array.from({ length: times }, (_, index) => ["40000", `${index}`.padStart(3, "0"), same]),
    );
  }
  return tree;
}

/** `count` entries of one kind, all of them the same object. */
function many(
  pack: Pack,
  count: number,
  entry: { mode: string; id: Buffer; nameLength?: number },
): Buffer {
  const name = (index: number): string => `${index}`.padStart(entry.nameLength ?? 8, "0");
  return pack.addTree(
    Array.from({ length: count }, (_, index) => [entry.mode, name(index), entry.id]),
  );
}

/** A file that is a megabyte many times over, sent as a difference of some bytes. */
function largeByDifference(pack: Pack, megabytes: number): Buffer {
  const base = Buffer.alloc(megabyte);
  const large = createHash("sha1").update(`blob ${base.length * megabytes}\0`);
  for (let count = 0; count < megabytes; count++) large.update(base);
  const copyAll = Array.from({ length: megabytes }, () => [0xc0, 0x10]).flat();
  const id = pack.add("blob", base);
  pack.addDifference(
    id,
    Buffer.from([...sizeBytes(base.length), ...sizeBytes(base.length * megabytes), ...copyAll]),
  );
  return pack.addTree([
    ["100644", "a", id],
    ["100644", "b", large.digest()],
  ]);
}

/** Thousands of files of 16 MB, each some bytes of difference to the one before all of them. */
function manyDifferences(pack: Pack, count: number): Buffer {
  const base = Buffer.alloc(0xffffff);
  const id = pack.add("blob", base);
  for (let index = 0; index < count; index++) {
    const text = `${index}`.padStart(6, "0");
    const sizes = [...sizeBytes(base.length), ...sizeBytes(base.length + text.length)];
    const instructions = [...sizes, 0xf0, 0xff, 0xff, 0xff, text.length, ...Buffer.from(text)];
    pack.addDifference(id, Buffer.from(instructions));
  }
  return pack.addTree([["100644", "a", id]]);
}

/**
 * A file of zeros in gigabytes, a thousandth of that when packed. Its id is not known, so no folder
 * holds it.
 */
function zeros(pack: Pack, gigabytes: number): Buffer {
  const block = deflateRawSync(Buffer.alloc(megabyte), { finishFlush: constants.Z_FULL_FLUSH });
  const size = gigabytes * 1024 * megabyte;
  const end = Buffer.from([3, 0, 0, 0, 0, 1]);
  end.writeUInt16BE(size % 65_521, 2);
  const blocks = Array.from({ length: gigabytes * 1024 }, () => block);
  pack.addEntry(3, size, Buffer.concat([Buffer.from([0x78, 0x9c]), ...blocks, end]));
  return pack.addTree([["100644", "a", pack.add("blob", Buffer.from("a"))]]);
}

const zeroId = "1".repeat(40);

/** What is tried, what bounds it, and what the app's owner reads. */
const attempts: readonly {
  readonly name: string;
  readonly answers: () => HostileAnswers;
  readonly limits?: Limits;
  readonly refusal: RegExp;
}[] = [
  {
    name: "a folder that holds itself ten times over, twelve levels deep, without a file",
    answers: () => repository((pack) => nested(pack, pack.addTree([]), { levels: 12, times: 10 })),
    refusal: /^acme\/app cannot be deployed: it contains more than 200000 folders\.$/,
  },
  {
    name: "the same with one file at the bottom",
    answers: () =>
      repository((pack) => {
        const file = pack.add("blob", Buffer.from("x"));
        return nested(pack, pack.addTree([["100644", "a", file]]), { levels: 12, times: 10 });
      }),
    refusal: /it contains more than 200000 (files|folders)\.$/,
  },
  {
    name: "1,500 folders in each other",
    answers: () => repository((pack) => nested(pack, pack.addTree([]), { levels: 1500, times: 1 })),
    refusal: /it contains a path that is longer than 2048 bytes\.$/,
  },
  {
    name: "60,000 folders in each other, over which git falls",
    answers: () =>
      repository((pack) => nested(pack, pack.addTree([]), { levels: 60_000, times: 1 })),
    refusal: /^acme\/app contains objects on which git itself fails\.$/,
  },
  {
    name: "300,000 files in one folder",
    answers: () =>
      repository((pack) =>
        many(pack, 300_000, { mode: "100644", id: pack.add("blob", Buffer.from("x")) }),
      ),
    refusal: /it contains more than 200000 files\.$/,
  },
  {
    name: "a name that no file system takes",
    answers: () =>
      repository((pack) =>
        pack.addTree([["100644", "x".repeat(300), pack.add("blob", Buffer.from("x"))]]),
      ),
    refusal: /it contains a file or folder whose name is longer than 255 bytes\.$/,
  },
  {
    name: "paths that fill the memory of whoever keeps them",
    answers: () =>
      repository((pack) => {
        let tree = many(pack, 50_000, { mode: "100644", id: pack.add("blob", Buffer.from("x")) });
        for (let level = 0; level < 7; level++)
          tree = pack.addTree([["40000", "x".repeat(250), tree]]);
        return tree;
      }),
    refusal: /the paths of its files are too long in total\.$/,
  },
  {
    name: "more links than anybody would follow",
    answers: () =>
      repository((pack) =>
        many(pack, 10_001, { mode: "120000", id: pack.add("blob", Buffer.from("a/b")) }),
      ),
    refusal: /it contains more than 10000 symbolic links\.$/,
  },
  {
    name: "one small file that is there so often that it fills the disk",
    answers: () =>
      repository((pack) =>
        many(pack, 100_000, { mode: "100644", id: pack.add("blob", Buffer.alloc(10_000)) }),
      ),
    refusal: /its files are larger than 200 MB in total \(SLIPWAY_GIT_SIZE_MB\)\.$/,
  },
  {
    name: "a file of 128 MB in a kilobyte",
    answers: () => repository((pack) => largeByDifference(pack, 128)),
    refusal: /^acme\/app contains an object that takes more memory to unpack than a build may use/,
  },
  {
    name: "48 GB of files in 100 kB, each a difference to the first",
    answers: () => repository((pack) => manyDifferences(pack, 3000)),
    limits: { cpuSecondsMax: 2 },
    refusal: /^acme\/app takes git more CPU time or memory to unpack than a build may use/,
  },
  {
    name: "a file of 16 GB zeros in 16 MB",
    answers: () => repository((pack) => zeros(pack, 16)),
    limits: { cpuSecondsMax: 2 },
    refusal: /^acme\/app takes git more CPU time or memory to unpack than a build may use/,
  },
  {
    name: "a pattern of attributes that takes for ever to match",
    answers: () =>
      repository((pack) => {
        const attributes = pack.add("blob", Buffer.from(`/${"*a*/".repeat(14)}b text\n`));
        let tree = pack.addTree([["100644", "a", attributes]]);
        for (let level = 0; level < 100; level++)
          tree = pack.addTree([["40000", "aaaaaaaa", tree]]);
        return pack.addTree([
          ["100644", ".gitattributes", attributes],
          ["40000", "a", tree],
        ]);
      }),
    limits: { cpuSecondsMax: 2 },
    refusal: /^acme\/app takes git more CPU time or memory to unpack than a build may use/,
  },
  {
    name: "a pack that says to hold four billion objects",
    answers: () => {
      const pack = new Pack();
      const commit = pack.addCommit(pack.addTree([]));
      return { commit, pack: pack.bytes(0x0fff_ffff) };
    },
    refusal: /^acme\/app contains an object that takes more memory to unpack than a build may use/,
  },
  {
    name: "a commit without its files",
    answers: () => {
      const pack = new Pack();
      const commit = pack.addCommit(Buffer.alloc(20, 7));
      return { commit, pack: pack.bytes() };
    },
    refusal: /^acme\/app lacks objects that its commit refers to/,
  },
  {
    name: "another commit than the branch is said to be",
    answers: () => ({ ...repository((pack) => pack.addTree([])), commit: zeroId }),
    refusal: /^acme\/app lacks objects that its commit refers to/,
  },
  {
    name: "a branch that is no commit",
    answers: () => {
      const pack = new Pack();
      return { commit: pack.addTree([]).toString("hex"), pack: pack.bytes() };
    },
    refusal: /(does not point to a commit|contains objects on which git itself fails)/,
  },
  {
    name: "branches without end",
    answers: () => ({
      async references(send) {
        const lines = Array.from({ length: 5000 }, () =>
          gitLine(`${zeroId} refs/heads/${"x".repeat(100)}\n`),
        );
        const many = Buffer.concat(lines);
        let isTaken = true;
        while (isTaken) isTaken = await send(many);
      },
    }),
    refusal:
      /^git needs more memory for acme\/app than a build may use: it contains or references too much\.$/,
  },
  {
    name: "names of branches as long as the protocol allows, none of them the wanted one",
    answers: () => ({
      async references(send) {
        for (let index = 0; index < 20; index++)
          await send(gitLine(`${zeroId} refs/heads/${index}${"x".repeat(60_000)}\n`));
      },
    }),
    refusal:
      /^The branch "main" does not exist in acme\/app; it has: 0x{99}, .{800,1000} and 10 more\. Name one of them/,
  },
  {
    name: "messages without end",
    answers: () => ({
      commit: zeroId,
      async messages(send) {
        let isTaken = true;
        while (isTaken) isTaken = await send(`${"still busy, ".repeat(1000)}\n`);
      },
    }),
    refusal: /^127\.0\.0\.1:\d+ sends an endless stream of messages\.$/,
  },
  {
    name: "an answer of gigabytes, packed by gzip",
    answers: () => ({
      first(response) {
        response.writeHead(200, {
          "content-type": "application/x-git-upload-pack-advertisement",
          "content-encoding": "gzip",
        });
        const zeros = gzipSync(
          Buffer.concat([
            Buffer.from("001e# service=git-upload-pack\n0000"),
            Buffer.alloc(megabyte << 7),
          ]),
        );
        response.end(zeros);
      },
    }),
    refusal: /^acme\/app contains an object that takes more memory to unpack than a build may use/,
  },
  {
    name: "an answer that comes byte by byte",
    answers: () => ({
      first(response) {
        response.writeHead(200, { "content-type": "application/x-git-upload-pack-advertisement" });
        const drip = (): void => {
          response.write("0");
          if (!response.destroyed) systemClock.after(50, drip);
        };
        drip();
      },
    }),
    limits: { timeoutMs: 2000 },
    refusal: /^Fetching acme\/app took longer than 2 s \(SLIPWAY_GIT_TIMEOUT_SECONDS\)/,
  },
];

const drawn = drawCases(attempts, {
  what: "hostile repositories",
  max: 7,
  kindOf: ({ limits }) => Object.keys(limits ?? {}).join(),
});

for (const { name, answers, limits, refusal } of drawn) {
  test(`refused in words: ${name}`, async (t) => {
    const outcome = await fetchFrom(t, answers(), limits);
    assert.match(outcome.refusal ?? "it was fetched", refusal);
    assert.ok((outcome.refusal ?? "").length < 2000);
    assert.ok(outcome.lines.length < 100, `${outcome.lines.length} lines in the build's log`);
    assert.deepEqual(await readdir(outcome.sourcesDir), ["known-hosts"]);
  });
}

test("what is within the limits is fetched, also when most of it was sent as a difference", async (t) => {
  const answers = repository((pack) => largeByDifference(pack, 48));
  const { appDir, refusal } = await fetchFrom(t, answers);
  assert.equal(refusal, null);
  assert.equal((await stat(join(appDir ?? "", "b"))).size, 48 * megabyte);
});

test("thousands of links with targets of a thousand folders are left out, and the build's log stays short", async (t) => {
  const answers = repository((pack) => {
    const target = pack.add("blob", Buffer.from(`${"a/".repeat(1000)}..${"/..".repeat(600)}`));
    return many(pack, 3000, { mode: "120000", id: target });
  });
  const { appDir, lines } = await fetchFrom(t, answers);
  assert.deepEqual(await readdir(appDir ?? ""), []);
  assert.ok(lines.length < 30, `${lines.length} lines`);
  assert.ok(
    lines.includes("Warning: 2980 more links point outside the app's folder and were left out."),
  );
});
