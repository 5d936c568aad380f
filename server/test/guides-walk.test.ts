// The README's tour and then the guides, in the order in which the README names them: a reader
// types what is printed, on one platform that the tour and the guides start, and sees what they
// show. In the end nothing is left but what they say stays.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import "#test/support/leftovers.ts";
import { drawCases } from "./support/drawn-cases.ts";
import { GuideReader, guideSteps, ReadersHome } from "./support/guide-reader.ts";
import { makeFolder, removeFolder } from "./support/folder.ts";

const projectDir = join(import.meta.dirname, "../..");
const read = (path: string): string => readFileSync(join(projectDir, path), "utf8");

/** Guides with commands that are followed elsewhere, and why. */
const elsewhere: Readonly<Record<string, string>> = {
  "backup-and-restore": "it starts the copy in another folder: guide-backup.test.ts",
};

/** What a guide needs that a machine may lack; null: it is there. */
const needs: Readonly<Record<string, string | null>> = {
  "async-runs-and-webhooks": lacking("python3", ["--version"], "python3, for a receiver"),
  "people-and-tokens": lacking(
    "python3",
    ["-c", "import pty"],
    "python3 with the module pty, for a terminal",
  ),
  deploying: lacking("openssl", ["version"], "openssl, which signs an event"),
};

function lacking(program: string, args: readonly string[], what: string): string | null {
  return spawnSync(program, args, { timeout: 20_000 }).status === 0
    ? null
    : `this machine lacks ${what}`;
}

/** The guides that the README links to, once each, in its order. */
function linkedGuides(): string[] {
  const links = read("README.md").matchAll(/\]\(docs\/guides\/([\w-]+)\.md/g);
  return [...new Set(Array.from(links, ([, name = ""]) => name))];
}

const guides = linkedGuides().filter((name) => /^```bash$/m.test(read(`docs/guides/${name}.md`)));
/** Each begins where the tour ends, so any of them may be left out. */
const drawn = drawCases(guides, { what: "guides of the walk", max: 5 });
const folder = makeFolder("walk");
const home = await ReadersHome.make(folder);
const before = home.files();

after(async () => {
  const reader = new GuideReader(home);
  try {
    if (existsSync(home.dataDir)) await reader.run("slipway down");
  } finally {
    await reader.end();
    removeFolder(folder);
  }
});

async function follow(path: string): Promise<GuideReader> {
  const steps = guideSteps(read(path));
  const reader = new GuideReader(home);
  try {
    for (const step of steps)
      if (step.mark === "file" && step.name.endsWith(".toml")) await reader.follow(step);
    for (const step of steps) await reader.follow(step);
  } finally {
    await reader.end();
  }
  return reader;
}

test("every guide is linked in the README, and those that are left out are there", () => {
  const there = readdirSync(join(projectDir, "docs/guides")).filter((name) => name.endsWith(".md"));
  const named = [...linkedGuides(), "writing-a-driver"].map((name) => `${name}.md`);
  assert.deepEqual(there.toSorted(), named.toSorted());
  for (const name of guides.filter((one) => !(one in elsewhere))) {
    const [first = ""] = guideSteps(read(`docs/guides/${name}.md`)).flatMap(({ mark, text }) =>
      mark === "run" ? text : [],
    );
    assert.match(
      first,
      /^(?:SLIPWAY_.*)?slipway up$/m,
      `${name} begins with a start of the platform`,
    );
  }
  for (const name of Object.keys({ ...elsewhere, ...needs }))
    assert.ok(guides.includes(name), name);
});

test("the README's tour", async () => {
  const { answers } = await follow("README.md");
  assert.match(
    answers.at(-2) ?? "",
    /greeting Ada[^]*\/dashboard\/projects\/p-\w+\/apps\/p-\w+-hello/,
  );
  assert.match(
    answers.at(-1) ?? "",
    /^The platform \(process \d+\) has stopped\.\n1 replica ended/,
  );
});

// Such as "the guide scaling", which tools/field-tests.ts names.
for (const name of drawn) {
  test(`the guide ${name}`, { skip: elsewhere[name] ?? needs[name] ?? false }, async () => {
    const files = home.files();
    const reader = await follow(`docs/guides/${name}.md`);
    assert.deepEqual(home.files(), files, "it leaves no file");
    if (name === "async-runs-and-webhooks") assertReceivers(reader);
    if (name === "audit-log")
      assert.ok(!reader.answers.join("").includes("swordfish"), "no secret in any entry");
  });
}

/** Each one has verified a delivery and refused a forged one. */
function assertReceivers(reader: GuideReader): void {
  for (const name of ["receiver.py", "receiver.mts", "caller_receiver.py"]) {
    const printed = reader.printed(name);
    assert.match(printed, /^(new|genuine) /m, name);
    assert.match(printed, /^refused/m, name);
    assert.doesNotMatch(printed, /Error|Warning/, name);
  }
}

test("nothing is left of the guides", async () => {
  const reader = new GuideReader(home);
  try {
    await reader.run("slipway up");
    assert.match(
      await reader.run("slipway apps"),
      /^NAME +STATE[^\n]*\nhello +ACTIVE[^\n]*$/,
      "the tour's app",
    );
    assert.equal(await reader.run("slipway volumes ls --json"), "[]");
    assert.equal(await reader.run("slipway secrets --json"), "[]");
    assert.match(await reader.run("slipway members"), /^EMAIL[^\n]*\nowner@localhost[^\n]*$/);
    // Revoked ones stay in the list.
    assert.deepEqual(
      (await reader.run("slipway service-accounts list")).match(/^\S+(?= +active)/gm),
      ["bootstrap"],
    );
    await reader.run("slipway down");
  } finally {
    await reader.end();
  }
  assert.deepEqual(home.files(), [...before, "~/hello", "~/slipway/.slipway"].toSorted());
  assert.deepEqual(processesOf(home.folder), []);
});

/** Command lines of processes that have this home. */
function processesOf(own: string): string[] {
  return readdirSync("/proc").flatMap((pid) => {
    try {
      const isOwn = readFileSync(`/proc/${Number(pid)}/environ`, "utf8")
        .split("\0")
        .includes(`HOME=${own}`);
      return isOwn ? [readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ")] : [];
    } catch {
      // Not a process, not ours to read, or gone.
      return [];
    }
  });
}
