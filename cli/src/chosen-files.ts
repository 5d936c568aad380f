// Chooses the files of an app's folder: `include` and `exclude` of its TOML file, `.gitignore` and
// `.slipwayignore` of each folder, and never what only this machine needs. `deploy` packs them,
// `dev` watches them.
import { existsSync, readFileSync, statSync } from "node:fs";
import { realpath } from "node:fs/promises";
import { dirname, join, relative, sep } from "node:path";
import ignore, { type Ignore } from "ignore";
import type { AppFolder } from "./app-folder.ts";
import { entriesOf, isGone, isMisnamed, misnamed, statsOf, unreadable } from "./folder-entries.ts";
import { globTest } from "./glob.ts";
import { Refused } from "./refused.ts";

/** A file to pack. */
export type ChosenFile = {
  /** Relative to the folder, with `/`. */
  readonly path: string;
  /** Where its content is: elsewhere in the folder when `path` is a link. */
  readonly source: string;
  readonly bytes: number;
  readonly modifiedMs: number;
  readonly isExecutable: boolean;
};

export type ChosenFiles = {
  /** The files to pack, ordered by path. */
  readonly files: readonly ChosenFile[];
  /** What ignore files have kept out: paths, a folder for all in it. */
  readonly leftOut: readonly string[];
  /**
   * What cannot be deployed: sockets and the like, and what was gone again when it was looked at.
   */
  readonly notFiles: readonly string[];
};

/** Never part of an app, on any level. */
const neverNames = new Set([".git", ".hg", ".svn", ".slipway", "node_modules", "__pycache__"]);
/** Each folder's rules; the second file can take back what the first one says. */
const ignoreNames = [".gitignore", ".slipwayignore"] as const;
/** In one name of a line of an ignore file. Each more makes a match up to 255 times as slow. */
const starsMax = 3;
/** The platform takes no more. */
const filesMax = 200_000;

/** True for a name that is left out wherever it is. */
export function isNeverChosen(name: string): boolean {
  return neverNames.has(name);
}

/**
 * Throws `Refused` for a link that leaves the folder or leads back into itself, and when nothing is
 * chosen.
 */
export async function chooseFiles(folder: AppFolder): Promise<ChosenFiles> {
  const choice = new Choice(folder);
  await choice.walk();
  const files = choice.files.toSorted((one, other) => (one.path < other.path ? -1 : 1));
  if (files.length > 0) return { files, leftOut: choice.leftOut, notFiles: choice.notFiles };
  const why = folder.toml === null ? "" : ` Its include is ${JSON.stringify(folder.include)}.`;
  throw new Refused(`${folder.path} has no files to deploy.${why}`, { exitCode: 2 });
}

/** Rules of one folder, for paths below it. */
type Rules = { readonly base: string; readonly rules: Ignore };

type FolderAt = {
  readonly absolute: string;
  readonly path: string;
  readonly rules: readonly Rules[];
  /** The real folders from the root to this one. */
  readonly above: readonly string[];
};

class Choice {
  readonly files: ChosenFile[] = [];
  readonly leftOut: string[] = [];
  readonly notFiles: string[] = [];
  readonly #folder: AppFolder;
  readonly #isIncluded: (path: string) => boolean;
  readonly #isExcluded: (path: string) => boolean;

  constructor(folder: AppFolder) {
    this.#folder = folder;
    this.#isIncluded = includeTest(folder);
    const excludes = folder.exclude.map(globTest);
    this.#isExcluded = (path) => excludes.some((test) => test?.(path) === true);
  }

  async walk(): Promise<void> {
    const root = await realpath(this.#folder.path);
    await this.#enter({ absolute: root, path: "", rules: rulesAbove(root), above: [root] });
  }

  async #enter({ absolute, path, rules: before, above }: FolderAt): Promise<void> {
    const entries = await entriesOf(absolute, path === "" ? absolute : path).catch(
      withAdvice(path),
    );
    const own = rulesOf(absolute);
    const rules = own === null ? before : [...before, own];
    for (const entry of entries) {
      const at = {
        absolute: join(absolute, entry.name),
        path: path === "" ? entry.name : `${path}/${entry.name}`,
      };
      if (neverNames.has(entry.name) || (this.#isExcluded(at.path) && !this.#isToml(at.path)))
        continue;
      if (isMisnamed(entry.name)) {
        this.#leaveMisnamed(at, { rules, isFolder: entry.isDirectory() });
        continue;
      }
      const source = entry.isSymbolicLink() ? await this.#targetOf(at, above) : at.absolute;
      const stats = await statsOf(source, at.path).catch(withAdvice(at.path));
      if (stats === null) {
        this.notFiles.push(at.path);
        continue;
      }
      const isFolder = stats.isDirectory();
      if (isFolder && existsSync(join(source, "pyvenv.cfg"))) continue;
      if (!this.#isToml(at.path) && isIgnored(rules, at.absolute, isFolder))
        this.leftOut.push(at.path);
      else if (isFolder)
        await this.#enter({ absolute: source, path: at.path, rules, above: [...above, source] });
      else if (!stats.isFile()) this.notFiles.push(at.path);
      else if (this.#isIncluded(at.path)) this.#add({ ...at, source, stats });
    }
  }

  /** Throws `Refused` for one that would be deployed. */
  #leaveMisnamed(
    at: { readonly absolute: string; readonly path: string },
    { rules, isFolder }: { readonly rules: readonly Rules[]; readonly isFolder: boolean },
  ): void {
    if (isIgnored(rules, at.absolute, isFolder)) this.leftOut.push(at.path);
    else if (isFolder || this.#isIncluded(at.path)) throw misnamed(at.path);
  }

  /** The platform reads it first, whatever the patterns say. */
  #isToml(path: string): boolean {
    return path === this.#folder.toml?.file;
  }

  #add(found: {
    path: string;
    source: string;
    stats: { readonly size: number; readonly mode: number; readonly mtimeMs: number };
  }): void {
    const { path, source, stats } = found;
    if (/[\x00-\x1f\x7f\\\ufffd]/.test(path)) {
      throw new Refused(
        `${JSON.stringify(path)} has a name that the platform cannot store. Rename it or leave it out.`,
      );
    }
    if (this.files.length >= filesMax) {
      throw new Refused(
        `The folder has more than ${filesMax} files. Leave some out: exclude, or .slipwayignore.`,
      );
    }
    this.files.push({
      path,
      source,
      bytes: stats.size,
      modifiedMs: stats.mtimeMs,
      isExecutable: (stats.mode & 0o111) !== 0,
    });
  }

  /** What a link leads to. */
  async #targetOf(
    { absolute, path }: { absolute: string; path: string },
    above: readonly string[],
  ): Promise<string> {
    const [root = ""] = above;
    const target = await realpath(absolute).catch(() => null);
    const inside = target === null ? null : relative(root, target);
    const help = `Copy the files there, or leave it out: exclude = [${JSON.stringify(path)}]`;
    if (target === null || inside === null)
      throw new Refused(`${path} is a link to nothing. ${help}`);
    if (inside.split(sep)[0] === ".." || inside.split(sep).some((name) => neverNames.has(name))) {
      const git =
        "Or deploy the repository, where links to other folders of it are followed: slipway deploy --git";
      throw new Refused(
        `${path} is a link to ${target}, which is outside of what is deployed. ${help}\n${git}`,
      );
    }
    if (above.includes(target))
      throw new Refused(`${path} is a link to a folder that it is in itself. ${help}`);
    return target;
  }
}

/** `*` means everything, and the name of a folder what is in it. */
function includeTest({ include, toml }: AppFolder): (path: string) => boolean {
  const written = include.map((one) => one.replace(/^\.\//, ""));
  if (written.includes("*")) return () => true;
  const tests = written.map(globTest);
  const folders = written
    .filter((one) => !/[*?[{\\]/.test(one))
    .map((one) => `${one.replace(/\/+$/, "")}/`);
  return (path) =>
    path === toml?.file ||
    tests.some((test) => test?.(path) === true) ||
    folders.some((folder) => path.startsWith(folder));
}

/** The refusal of what cannot be read, with the way out. */
function withAdvice(path: string): (error: unknown) => never {
  return (error) => {
    if (!(error instanceof Refused) || path === "") throw error;
    const how = `Allow it, or leave it out: exclude = [${JSON.stringify(path)}]`;
    throw new Refused(`${error.message} ${how}`, { cause: error });
  };
}

function rulesOf(folder: string): Rules | null {
  const texts = ignoreNames.flatMap((name) => {
    const file = join(folder, name);
    const text = textOf(file);
    if (text === null) return [];
    requireSimple(file, text);
    return [text];
  });
  return texts.length === 0 ? null : { base: folder, rules: ignore().add(texts.join("\n")) };
}

/** Null: it is no file. */
function textOf(file: string): string | null {
  try {
    return statSync(file, { throwIfNoEntry: false })?.isFile() === true
      ? readFileSync(file, "utf8")
      : null;
  } catch (error) {
    if (isGone(error)) return null;
    throw unreadable(file, error);
  }
}

/** Lines that would take for ever with a long name: the folder may be a stranger's. */
function requireSimple(file: string, text: string): void {
  const stars = (part: string): number => part.match(/\*+/g)?.length ?? 0;
  const isSimple = (line: string): boolean =>
    stars(line) <= 2 * starsMax && line.split("/").every((name) => stars(name) <= starsMax);
  const line = text.split("\n").find((one) => !one.startsWith("#") && !isSimple(one));
  if (line === undefined) return;
  throw new Refused(
    `${file} has ${JSON.stringify(line.slice(0, 200))}, which has too many * for slipway deploy: at most ${starsMax} in a name, and ${2 * starsMax} in all.`,
    { exitCode: 2 },
  );
}

/** Reads the rules of the folders above, up to the one of the repository. */
function rulesAbove(root: string): Rules[] {
  const found: Rules[] = [];
  for (let folder = root; !existsSync(join(folder, ".git"));) {
    const parent = dirname(folder);
    if (parent === folder) return [];
    folder = parent;
    const rules = rulesOf(folder);
    if (rules !== null) found.unshift(rules);
  }
  return found;
}

/** The last rule that says anything counts, as in git. */
function isIgnored(all: readonly Rules[], absolute: string, isFolder: boolean): boolean {
  let isOut = false;
  for (const { base, rules } of all) {
    const path = relative(base, absolute).split(sep).join("/") + (isFolder ? "/" : "");
    if (path.startsWith("..")) continue;
    const { ignored, unignored } = rules.test(path);
    isOut = ignored || (isOut && !unignored);
  }
  return isOut;
}
