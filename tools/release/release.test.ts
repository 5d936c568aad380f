// A release in a git repository that has the files of the project which hold a version.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { makeRelease } from "./release.ts";
import { versionedDocuments } from "./versions.ts";
import { packageFolders, projectDir } from "#tidy/tree.ts";

type Manifest = {
  readonly version?: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  /** The packages of a lock file. */
  readonly packages?: Readonly<Record<string, Manifest>>;
};

const manifestPaths = ["package.json", ...packageFolders.map((name) => `${name}/package.json`)];
const lockPaths = ["package-lock.json", "dashboard/package-lock.json"];
const current = manifestOf(projectDir, "cli/package.json").version ?? "";
const change = "area: dashboard\n\n**Added** Charts.\n";

function read(folder: string, path: string): string {
  return readFileSync(join(folder, path), "utf8");
}

function manifestOf(folder: string, path: string): Manifest {
  return JSON.parse(read(folder, path)) as Manifest;
}

function git(folder: string, ...parameters: string[]): string {
  const author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"];
  return execFileSync("git", [...author, ...parameters], { cwd: folder, encoding: "utf8" });
}

/** The versions of the project's own packages that a manifest has. */
function ownVersions({ version, dependencies = {} }: Manifest): readonly string[] {
  const wanted = Object.entries(dependencies).filter(([name]) => name.startsWith("@slipway/"));
  return [version, ...wanted.map(([, one]) => one)].filter((one) => one !== undefined);
}

/** A repository with one commit, which is removed after the test. */
function repositoryOf(context: TestContext, changes: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "slipway-release-"));
  context.after(() => rmSync(folder, { recursive: true }));
  for (const path of [...manifestPaths, ...lockPaths, ...versionedDocuments]) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(join(projectDir, path), join(folder, path));
  }
  mkdirSync(join(folder, "changes"));
  writeFileSync(join(folder, "changes/README.md"), "# Unreleased changes\n");
  const changelog = `# Changelog\n\n## ${current}\n\nThe first version.\n`;
  writeFileSync(join(folder, "CHANGELOG.md"), changelog);
  for (const [name, text] of Object.entries(changes)) {
    writeFileSync(join(folder, "changes", name), text);
  }
  git(folder, "init", "--quiet");
  git(folder, "add", "--all");
  git(folder, "commit", "--quiet", "--no-gpg-sign", "--message", "Begin");
  return folder;
}

test("a release moves all changes into the changelog and sets every version", (context) => {
  const lists = "area: storage\n\n**Fixed** Lists.\n";
  const folder = repositoryOf(context, { "charts.md": change, "lists.md": lists });
  const { entries, files } = makeRelease(folder, "1000.0.0", "2026-11-27");
  assert.deepEqual([entries.length, files], [2, 2]);
  assert.equal(
    read(folder, "CHANGELOG.md"),
    `# Changelog

## 1000.0.0 (2026-11-27)

### Dashboard

#### Added

- Charts.

### Storage

#### Fixed

- Lists.

## ${current}

The first version.
`,
  );
  assert.equal(existsSync(join(folder, "changes/README.md")), true);
  assert.equal(existsSync(join(folder, "changes/charts.md")), false);
  const manifests = manifestPaths.map((path) => manifestOf(folder, path));
  assert.deepEqual(new Set(manifests.flatMap(ownVersions)), new Set(["1000.0.0"]));
  const locked = lockPaths.flatMap((path) =>
    Object.entries(manifestOf(folder, path).packages ?? {}),
  );
  const ours = locked.filter(([path]) => !path.includes("node_modules/"));
  assert.deepEqual(new Set(ours.flatMap(([, one]) => ownVersions(one))), new Set(["1000.0.0"]));
  for (const path of versionedDocuments) {
    assert.match(read(folder, path), /(?:^|slipway\/)1000\.0\.0(?:$| )/m, path);
  }
});

test("a release that cannot be made changes nothing, and the message says why", (context) => {
  const refusals: readonly [string, Record<string, string>, RegExp][] = [
    [current, { "a.md": change }, /is not newer than/],
    ["1000.0", { "a.md": change }, /"1000\.0" is not a version/],
    ["1000.0.0", {}, /changes\/ has no files: there is nothing to release/],
    ["1000.0.0", { "a.md": change, "b.md": "**Added** Lists.\n" }, /changes\/b\.md begins with/],
  ];
  for (const [version, changes, message] of refusals) {
    const folder = repositoryOf(context, changes);
    assert.throws(() => makeRelease(folder, version, "2026-11-27"), { message });
    assert.equal(git(folder, "status", "--porcelain"), "");
  }
  const dirty = repositoryOf(context, { "a.md": change });
  writeFileSync(join(dirty, "changes/b.md"), change);
  assert.throws(() => makeRelease(dirty, "1000.0.0", "2026-11-27"), {
    message: /what is not committed:\n\?\? changes\/b\.md/,
  });
  assert.equal(git(dirty, "status", "--porcelain"), "?? changes/b.md\n");
});
