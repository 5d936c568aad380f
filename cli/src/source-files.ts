// Looks through the source files of a folder for `slipway init`. It reads, and runs nothing; what
// cannot be read is passed over.
import { existsSync, readdirSync, readFileSync, statSync, type Dirent } from "node:fs";
import { join } from "node:path";
import { isNeverChosen } from "./chosen-files.ts";
import { Refused } from "./refused.ts";
import { readTextFile } from "./text-file.ts";

/** A made source file is small; a generated one is not searched. */
const textBytesMax = 1_000_000;
const filesMax = 500;
const depthMax = 3;
const firstNames = ["main.py", "app.py", "streamlit_app.py", "server.py", "asgi.py", "wsgi.py"];

/**
 * The files whose names `form` matches: those at the top first, and those that usually start an app
 * before the others.
 */
export function sourceFiles(folder: string, form: RegExp): string[] {
  return filesBelow({ folder, form, path: "", depth: 0 });
}

type Look = {
  readonly folder: string;
  readonly form: RegExp;
  readonly path: string;
  readonly depth: number;
};

function filesBelow({ folder, form, path, depth }: Look): string[] {
  const entries = entriesOf(join(folder, path)).toSorted(byRank);
  const at = (name: string): string => (path === "" ? name : `${path}/${name}`);
  const files = entries
    .filter((entry) => entry.isFile() && form.test(entry.name))
    .map(({ name }) => at(name));
  const folders = entries.filter(
    (entry) => entry.isDirectory() && /^[A-Za-z_][\w-]*$/.test(entry.name),
  );
  const below =
    depth === depthMax
      ? []
      : folders
          .filter(
            ({ name }) => !isNeverChosen(name) && !existsSync(join(folder, at(name), "pyvenv.cfg")),
          )
          .flatMap(({ name }) => filesBelow({ folder, form, path: at(name), depth: depth + 1 }));
  return [...files, ...below].slice(0, filesMax);
}

function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    // Whoever deploys it will be told.
    return [];
  }
}

/** Compares by rank, and within one rank by name. */
function byRank({ name: one }: Dirent, { name: other }: Dirent): number {
  if (rank(one) !== rank(other)) return rank(one) - rank(other);
  return one < other ? -1 : 1;
}

function rank(name: string): number {
  return firstNames.indexOf(name) + 1 || filesMax;
}

/** The text of a file; null: there is none that can be searched. */
export function textOf(path: string): string | null {
  try {
    const stats = statSync(path, { throwIfNoEntry: false });
    return stats?.isFile() === true && stats.size <= textBytesMax ? decoded(path) : null;
  } catch {
    // Whoever deploys it will be told.
    return null;
  }
}

/**
 * What has no encoding that the platform reads is searched as far as it goes: the build says what
 * is wrong with it.
 */
function decoded(path: string): string {
  try {
    return readTextFile(path, path);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return readFileSync(path, "utf8");
  }
}

/**
 * The port that the texts name; null: none, or the variable PORT. `named` has the port as its first
 * group.
 */
export function portIn(texts: readonly string[], variable: RegExp, named: RegExp): number | null {
  if (texts.some((text) => variable.test(text))) return null;
  const found = texts.map((text) =>
    named
      .exec(text)
      ?.slice(1)
      .find((one) => one !== undefined),
  );
  const port = Number(found.find((one) => one !== undefined));
  return port > 0 && port < 65_536 ? port : null;
}
