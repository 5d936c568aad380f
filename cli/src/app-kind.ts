// Finds out what kind of app a folder holds, for `slipway init`: how it is served, and whether its packages are listed where the
// platform finds them.
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { parse } from "smol-toml";
import { isNeverChosen } from "./chosen-files.ts";
import { Refused } from "./refused.ts";
import { readTextFile } from "./text-file.ts";

/** How an app is served. */
export type AppKind =
  /** Functions of a `main.py`; `isNew`: there is none yet. */
  | { readonly kind: "cortex"; readonly isNew: boolean }
  | { readonly kind: "dockerfile"; readonly path: string; readonly port: number }
  /** Its own server: `app` is `module:variable`. */
  | { readonly kind: "asgi" | "wsgi"; readonly app: string; readonly framework: string };

/** What `init` writes down. */
export type FoundApp = {
  readonly kind: AppKind;
  /** Of `pyproject.toml`, such as `httpx>=0.27`. */
  readonly packages: readonly string[];
  /** The platform reads it itself, where the settings list no packages. */
  readonly hasRequirements: boolean;
};

const frameworks: readonly { readonly name: string; readonly kind: "asgi" | "wsgi" }[] = [
  { name: "FastAPI", kind: "asgi" },
  { name: "Starlette", kind: "asgi" },
  { name: "Litestar", kind: "asgi" },
  { name: "Quart", kind: "asgi" },
  { name: "FastMCP", kind: "asgi" },
  { name: "Flask", kind: "wsgi" },
  { name: "Bottle", kind: "wsgi" },
];

/** A made source file is small; a generated one is not searched. */
const textBytesMax = 1_000_000;
const filesMax = 500;
const depthMax = 3;
const portByDefault = 8000;

/** Reads, but runs nothing of the folder. */
export function findApp(folder: string): FoundApp {
  const hasRequirements = ["requirements.txt", "uv.lock"].some((name) => existsSync(join(folder, name)));
  return { kind: kindOf(folder), packages: hasRequirements ? [] : packagesOf(folder), hasRequirements };
}

function kindOf(folder: string): AppKind {
  const dockerfile = textOf(join(folder, "Dockerfile"));
  if (dockerfile !== null) {
    const port = Number(/^\s*EXPOSE\s+(\d+)/im.exec(dockerfile)?.[1] ?? portByDefault);
    return { kind: "dockerfile", path: "Dockerfile", port };
  }
  for (const path of pythonFiles(folder, "", 0)) {
    const served = servedIn(textOf(join(folder, path)) ?? "");
    if (served === null) continue;
    const module = path.replace(/(?:\/__init__)?\.py$/, "").replaceAll("/", ".");
    return { kind: served.kind, app: `${module}:${served.variable}`, framework: served.framework };
  }
  return { kind: "cortex", isNew: !existsSync(join(folder, "main.py")) };
}

/** An app object of a framework that the file makes at its top level. */
function servedIn(text: string): { kind: "asgi" | "wsgi"; variable: string; framework: string } | null {
  for (const { name, kind } of frameworks) {
    const made = new RegExp(`^(\\w+)(?:\\s*:\\s*[\\w.]+)?\\s*=\\s*(?:\\w+\\.)?${name}\\(`, "m").exec(text);
    if (made?.[1] !== undefined) return { kind, variable: made[1], framework: name };
  }
  const django = /^(\w+)\s*=\s*get_(a|w)sgi_application\(/m.exec(text);
  return django?.[1] === undefined
    ? null
    : { kind: django[2] === "a" ? "asgi" : "wsgi", variable: django[1], framework: "Django" };
}

/** Those at the top first, `main.py` and `app.py` before the others. */
function pythonFiles(folder: string, path: string, depth: number): string[] {
  const entries = readdirSync(join(folder, path), { withFileTypes: true }).toSorted((one, other) =>
    rank(one.name) === rank(other.name) ? (one.name < other.name ? -1 : 1) : rank(one.name) - rank(other.name),
  );
  const at = (name: string): string => (path === "" ? name : `${path}/${name}`);
  const files = entries.filter((entry) => entry.isFile() && entry.name.endsWith(".py")).map(({ name }) => at(name));
  const folders = entries.filter((entry) => entry.isDirectory() && /^[A-Za-z_]\w*$/.test(entry.name));
  const below =
    depth === depthMax
      ? []
      : folders
          .filter(({ name }) => !isNeverChosen(name) && !existsSync(join(folder, at(name), "pyvenv.cfg")))
          .flatMap(({ name }) => pythonFiles(folder, at(name), depth + 1));
  return [...files, ...below].slice(0, filesMax);
}

function rank(name: string): number {
  return ["main.py", "app.py", "server.py", "asgi.py", "wsgi.py"].indexOf(name) + 1 || filesMax;
}

function packagesOf(folder: string): string[] {
  const text = textOf(join(folder, "pyproject.toml"));
  if (text === null) return [];
  try {
    const { project } = parse(text) as { project?: { dependencies?: unknown } };
    const listed = project?.dependencies;
    return Array.isArray(listed) ? listed.filter((one): one is string => typeof one === "string") : [];
  } catch {
    // Whoever builds the package will be told.
    return [];
  }
}

/** What cannot be read is searched as far as it goes: the build says what is wrong with it. */
function textOf(path: string): string | null {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isFile() !== true || stats.size > textBytesMax) return null;
  try {
    return readTextFile(path, path);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return readFileSync(path, "utf8");
  }
}
