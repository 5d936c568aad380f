// The built pages of the dashboard, held in memory. They are built beside the running platform: a
// build that has ended since is read when somebody asks for a page, and until there is one a page
// says that it is being built, or why it could not be.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative, sep } from "node:path";
import { errorCode } from "#lib/error-code.ts";
import { ownFiles } from "#lib/own-files.ts";

/** A file as it is sent; `gzip` and `br` are there when the build has compressed it. */
export type DashboardFile = {
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

/** The media type of a file by its name; undefined: it is not one that pages have. */
export function typeOf(name: string): string | undefined {
  return types[name.slice(name.lastIndexOf(".") + 1)];
}

/** Reads what is below `folder` of a build, and again when there is another one. */
export class DashboardFiles {
  readonly #folder: string;
  #version = "";
  #files: ReadonlyMap<string, DashboardFile> = new Map();

  constructor(folder: string = ownFiles.dashboard) {
    this.#folder = folder;
  }

  /** The page of all addresses; null: it was never built. */
  page(): DashboardFile | null {
    this.#refresh();
    return this.#files.get("index.html") ?? null;
  }

  /** A file that the page names, such as `assets/a.js`. */
  file(name: string): DashboardFile | null {
    const held = this.#files.get(name);
    if (held !== undefined) return held;
    this.#refresh();
    return this.#files.get(name) ?? null;
  }

  /** Why the latest build failed; null: none has, so far. */
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
      // Just now the next build takes its place; what was read before is still good.
      if (errorCode(error) !== "ENOENT") throw error;
    }
  }
}

function readFiles(folder: string): ReadonlyMap<string, DashboardFile> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  const paths = new Set(entries.map((entry) => join(entry.parentPath, entry.name)));
  const compressed = (path: string): Buffer | undefined =>
    paths.has(path) ? readFileSync(path) : undefined;
  const files = new Map<string, DashboardFile>();
  for (const path of paths) {
    const type = typeOf(path);
    if (type === undefined) continue;
    const gzip = compressed(`${path}.gz`);
    const br = compressed(`${path}.br`);
    const more = { ...(gzip === undefined ? {} : { gzip }), ...(br === undefined ? {} : { br }) };
    files.set(relative(folder, path).split(sep).join("/"), {
      type,
      plain: readFileSync(path),
      ...more,
    });
  }
  return files;
}

/** Differs between builds; null: there is none. */
function versionOf(path: string): string | null {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? null : `${found.ino} ${found.mtimeMs}`;
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return null;
    throw error;
  }
}
