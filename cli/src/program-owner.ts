// Finds what users other than root can change in a program that root is about to run.
import { existsSync, lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { realpathSync, type Stats } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Installation } from "./installation.ts";

/** Groups of people begin here. Those below are of the system, and many have no members. */
const groupOfPeopleMin = 1000;

/**
 * A path of the program, of its Node.js, of the folders above them or of what their links lead to
 * that somebody other than root can change; null: there is none. What the platform itself writes is
 * left out: its data folder.
 */
export function changeableByOthers({ root, node, dataDir }: Installation): string | null {
  const search = new Search(resolve(dataDir));
  return search.at(root) ?? search.at(node) ?? search.whole(realpathSync(root));
}

/** Looks at each path once, as it is written and where its links lead. */
class Search {
  readonly #leftOut: string;
  readonly #groups = groupsWithMembers();
  readonly #looked = new Set<string>();
  readonly #wholes = new Set<string>();

  constructor(leftOut: string) {
    this.#leftOut = leftOut;
  }

  /** Looks at the path and at the folders above it. */
  at(path: string): string | null {
    return firstFound(foldersAbove(path), (one) => this.#look(one));
  }

  /** Looks at everything below the path, too. */
  whole(path: string): string | null {
    if (path === this.#leftOut || this.#wholes.has(path)) return null;
    this.#wholes.add(path);
    const found = this.at(path);
    if (found !== null) return found;
    const stats = lstatSync(path, { throwIfNoEntry: false });
    if (stats?.isSymbolicLink() === true) return this.whole(targetOf(path));
    if (stats?.isDirectory() !== true) return null;
    return firstFound(readdirSync(path), (name) => this.whole(join(path, name)));
  }

  #look(path: string): string | null {
    if (this.#looked.has(path)) return null;
    this.#looked.add(path);
    const stats = lstatSync(path, { throwIfNoEntry: false });
    // The folder in which it is missing is looked at, too.
    if (stats === undefined) return null;
    if (this.#isChangeable(stats)) return path;
    return stats.isSymbolicLink() ? this.at(targetOf(path)) : null;
  }

  #isChangeable(stats: Stats): boolean {
    return stats.uid !== 0 || (!stats.isSymbolicLink() && this.#isWritable(stats));
  }

  /** In a sticky folder such as /tmp, others cannot replace what is root's. */
  #isWritable({ mode, gid }: Stats): boolean {
    const isSticky = (mode & 0o1000) !== 0;
    const isOfOthers = gid !== 0 && (gid >= groupOfPeopleMin || this.#groups.has(gid));
    const isWritableByGroup = (mode & 0o020) !== 0 && isOfOthers;
    return !isSticky && ((mode & 0o002) !== 0 || isWritableByGroup);
  }
}

function firstFound(
  paths: readonly string[],
  look: (path: string) => string | null,
): string | null {
  for (const path of paths) {
    const found = look(path);
    if (found !== null) return found;
  }
  return null;
}

/** The path itself and the folders that it is in. */
function foldersAbove(path: string): readonly string[] {
  return dirname(path) === path ? [path] : [path, ...foldersAbove(dirname(path))];
}

function targetOf(link: string): string {
  return resolve(realpathSync(dirname(link)), readlinkSync(link));
}

/** The ids of the groups on this machine that somebody other than root is in. */
function groupsWithMembers(): ReadonlySet<number> {
  const users = rowsOf("/etc/passwd").filter(([, , userId]) => userId !== "0");
  const names = new Set(users.map(([name]) => name));
  const groups = rowsOf("/etc/group").filter(([, , , members = ""]) =>
    members.split(",").some((member) => names.has(member)),
  );
  return new Set([
    ...users.map(([, , , groupId]) => Number(groupId)),
    ...groups.map(([, , groupId]) => Number(groupId)),
  ]);
}

function rowsOf(file: string): readonly (readonly string[])[] {
  if (!existsSync(file)) return [];
  return readFileSync(file, "utf8")
    .split("\n")
    .map((row) => row.split(":"));
}
