// Makes a release in a checkout: moves the files of changes/ into a section of CHANGELOG.md, and
// sets the version wherever it stands. Commits nothing: a person reads the section first.
import { execFileSync } from "node:child_process";
import { globSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { changelogSection, changelogWith, readChanges, type ChangeEntry } from "./changes.ts";
import {
  documentWithVersion,
  isNewer,
  lockWithVersion,
  manifestWithVersion,
  versionedDocuments,
  type Versions,
} from "./versions.ts";

/** What a release was made of. */
export type Released = { readonly entries: readonly ChangeEntry[]; readonly files: number };

/**
 * Writes the files of a release. Before it has written any, it throws an error that says what to do
 * when a file is not committed, the version is not newer, nothing has changed, or a file of
 * changes/ is not as it must be. `date`: such as 2026-11-27.
 */
export function makeRelease(folder: string, version: string, date: string): Released {
  const earlier = (JSON.parse(read(folder, "cli/package.json")) as { version: string }).version;
  if (!isNewer(version, earlier))
    throw new Error(`${version} is not newer than ${earlier}, which cli/package.json has`);
  const status = execFileSync("git", ["status", "--porcelain"], { cwd: folder, encoding: "utf8" });
  if (status !== "")
    throw new Error(`Commit or remove what is not committed:\n${status.trimEnd()}`);
  const files = changeFiles(folder);
  const entries = readChanges(files);
  if (entries.length === 0) throw new Error("changes/ has no files: there is nothing to release");
  const written = releasedFiles(folder, { from: earlier, to: version });
  const section = changelogSection(version, date, entries);
  written.set("CHANGELOG.md", changelogWith(read(folder, "CHANGELOG.md"), section));
  for (const [path, text] of written) writeFileSync(join(folder, path), text);
  for (const path of Object.keys(files)) rmSync(join(folder, path));
  return { entries, files: Object.keys(files).length };
}

/** The files of changes/ by path, in alphabetical order, without its README.md. */
export function changeFiles(folder: string): Record<string, string> {
  const all = globSync("changes/*.md", { cwd: folder });
  const paths = all.filter((path) => path !== "changes/README.md").toSorted();
  return Object.fromEntries(paths.map((path) => [path, read(folder, path)]));
}

/** The new texts of all files that hold the version. */
function releasedFiles(folder: string, versions: Versions): Map<string, string> {
  const written = new Map<string, string>();
  for (const path of globSync(["package.json", "*/package.json"], { cwd: folder })) {
    written.set(path, manifestWithVersion(read(folder, path), versions.to));
  }
  for (const path of globSync(["package-lock.json", "*/package-lock.json"], { cwd: folder })) {
    written.set(path, lockWithVersion(read(folder, path), versions.to));
  }
  for (const path of versionedDocuments) {
    written.set(path, documentWithVersion(path, read(folder, path), versions));
  }
  return written;
}

function read(folder: string, path: string): string {
  return readFileSync(join(folder, path), "utf8");
}
