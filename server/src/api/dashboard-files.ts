// The files of the dashboard, held in memory. They may be built anew while the platform runs: the
// new files are read when somebody asks for a page. When a build failed, `problem` says why.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { errorCode } from "#lib/error-code.ts";
import { ownFiles } from "#lib/own-files.ts";

/**
 * A file as it is sent. `gzip` and `br` are its compressed forms, if the build has written them.
 */
export type DashboardFile = {
  /** The media type. */
  readonly type: string;
  readonly plain: Buffer;
  readonly gzip?: Buffer;
  readonly br?: Buffer;
};

const types: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

/** The media type of a file by its name; undefined: the dashboard has no files of this type. */
export function typeOf(name: string): string | undefined {
  return types[name.slice(name.lastIndexOf(".") + 1)];
}

/** Holds the files of the latest build in `folder`, and reads them again after a newer build. */
export class DashboardFiles {
  readonly #folder: string;
  /** The build that `#files` is from; empty before the first. */
  #version = "";
  #files: ReadonlyMap<string, DashboardFile> = new Map();

  constructor(folder: string = ownFiles.dashboard) {
    this.#folder = folder;
  }

  /** The page that is sent for every address of the dashboard; null: it was never built. */
  page(): DashboardFile | null {
    this.#refresh();
    return this.#files.get("index.html") ?? null;
  }

  /** A file that the page names, such as `assets/a.js`. */
  file(name: string): DashboardFile | null {
    const known = this.#files.get(name);
    if (known !== undefined) return known;
    this.#refresh();
    return this.#files.get(name) ?? null;
  }

  /** Why the latest attempt to build the dashboard failed; null: it did not fail. */
  problem(): string | null {
    return readText(join(this.#folder, "problem.txt"));
  }

  #refresh(): void {
    const version = versionOf(join(this.#folder, "pages", "index.html"));
    if (version === null || version === this.#version) return;
    try {
      this.#files = readFiles(join(this.#folder, "pages"));
      this.#version = version;
    } catch (error) {
      // A newer build is replacing the files at this moment. Until it is done, the earlier ones are
      // sent from memory.
      if (errorCode(error) !== "ENOENT") throw error;
    }
  }
}

function readFiles(folder: string): ReadonlyMap<string, DashboardFile> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const paths = new Set(entries.map((entry) => join(entry.parentPath, entry.name)));
  const readIfPresent = (path: string): Buffer | undefined =>
    paths.has(path) ? readFileSync(path) : undefined;
  const files = new Map<string, DashboardFile>();
  for (const path of paths) {
    // Compressed forms have no type of their own, and are not sent under their names.
    const type = typeOf(path);
    if (type === undefined) continue;
    const gzip = readIfPresent(`${path}.gz`);
    const br = readIfPresent(`${path}.br`);
    files.set(relative(folder, path).split(sep).join("/"), {
      type,
      plain: readFileSync(path),
      ...(gzip === undefined ? {} : { gzip }),
      ...(br === undefined ? {} : { br }),
    });
  }
  return files;
}

/** Identifies the build that wrote a file; null: the file does not exist. */
function versionOf(path: string): string | null {
  const stats = statSync(path, { throwIfNoEntry: false });
  return stats === undefined ? null : `${stats.ino} ${stats.mtimeMs}`;
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return null;
    throw error;
  }
}
