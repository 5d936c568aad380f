// Finds the Pythons of this machine: `python3…` on the PATH and the versions of pyenv. Starts each
// once, since a shim may be broken and a link may lead to another version; caches the answers while
// the platform runs.
import { getOrInsert } from "#lib/get-or-insert.ts";
import { readdir, realpath } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { runCommand } from "#lib/command.ts";
import type { Python } from "./python-choice.ts";

/**
 * Asks an interpreter for its properties. `base_prefix` leads out of virtual environments,
 * `executable` out of shims.
 */
const question = `
import importlib.util, json, os, sys
def has(name):
    try:
        return importlib.util.find_spec(name) is not None
    except Exception:
        return False
here = sys.executable
if sys.prefix != sys.base_prefix:
    there = os.path.join(sys.base_prefix, "bin", "python%d.%d" % sys.version_info[:2])
    here = there if os.path.exists(there) else here
print(json.dumps({"path": here, "version": list(sys.version_info[:3]), "venv": has("venv"), "pip": has("ensurepip")}))
`;
/** How long an interpreter may take to answer. */
const answerWaitMs = 10_000;
/** Maximum number of interpreters started at once. */
const questionsAtOnce = 4;

/** Finds and caches the installed interpreters. */
export class PythonFinder {
  readonly #environment: Readonly<Record<string, string>>;
  /** The complete answers, and those that are awaited, by the path of the program. */
  readonly #answers = new Map<string, Promise<Python | null>>();

  /** `environment`: only PATH and PYENV_ROOT matter. */
  constructor(options: { readonly environment: Readonly<Record<string, string>> }) {
    this.#environment = options.environment;
  }

  /**
   * The Pythons of one version, for example `3.11`; fast, since it starts only programs with that
   * name.
   */
  async ofVersion(version: string): Promise<Python[]> {
    const candidates = await this.#candidates();
    const named = candidates.filter((path) => path.endsWith(`/python${version}`));
    const pythons = await this.#ask(named);
    return pythons.filter((python) => python.version === version);
  }

  /** All Pythons of this machine. */
  async all(): Promise<Python[]> {
    return await this.#ask(await this.#candidates());
  }

  /** Programs called python3 or python3.x. First come those of pyenv, which are not scripts. */
  async #candidates(): Promise<string[]> {
    const root = this.#environment["PYENV_ROOT"] ?? join(homedir(), ".pyenv");
    const versions = await readdir(join(root, "versions")).catch(() => []);
    const pyenvFolders = versions.map((version) => join(root, "versions", version, "bin"));
    const pathFolders = (this.#environment["PATH"] ?? "")
      .split(":")
      .filter((folder) => folder.startsWith("/"));
    // Skip shims: they are slow, and lead to versions that are checked anyway.
    const withoutShims = pathFolders.filter((folder) => folder !== join(root, "shims"));
    const folders = [...pyenvFolders, ...withoutShims];
    const programs: string[] = [];
    for (const folder of new Set(folders)) {
      const names = await readdir(folder).catch(() => []);
      const pythonNames = names.filter((name) => /^python3(\.\d+)?$/.test(name));
      programs.push(...pythonNames.map((name) => join(folder, name)));
    }
    return programs;
  }

  async #ask(paths: readonly string[]): Promise<Python[]> {
    const pythons = new Map<string, Python>();
    const queue = [...paths];
    const work = async (): Promise<void> => {
      for (let path = queue.shift(); path !== undefined; path = queue.shift()) {
        const python = await this.#answer(path);
        if (python !== null && !pythons.has(python.path)) pythons.set(python.path, python);
      }
    };
    await Promise.all(Array.from({ length: questionsAtOnce }, work));
    return [...pythons.values()];
  }

  /**
   * The program's answer, cached if it is complete; null when it does not start or is not Python 3.
   */
  async #answer(path: string): Promise<Python | null> {
    const real = await realpath(path).catch(() => path);
    const python = await getOrInsert(this.#answers, real, () => askPython(real, this.#environment));
    // An operator may repair a broken or incomplete Python while the platform runs.
    if (python === null || !python.hasVenv || !python.hasPip) this.#answers.delete(real);
    return python;
  }
}

/**
 * Starts the program with -I (isolated) and -S (without site packages), so that no setting or
 * package of a user changes the answer.
 */
async function askPython(
  path: string,
  environment: Readonly<Record<string, string>>,
): Promise<Python | null> {
  let output = "";
  const end = await runCommand({
    command: [path, "-I", "-S", "-c", question],
    cwd: "/",
    environment: { PATH: environment["PATH"] ?? "" },
    signal: AbortSignal.timeout(answerWaitMs),
    timeoutMs: answerWaitMs,
    onLine: (stream, text) => {
      if (stream === "stdout") output += text;
    },
  });
  if (end.kind !== "exited" || end.exitCode !== 0) return null;
  try {
    const facts = JSON.parse(output) as {
      path: string;
      version: [number, number, number];
      venv: boolean;
      pip: boolean;
    };
    const [major, minor, patch] = facts.version;
    if (major !== 3) return null;
    return {
      path: await realpath(facts.path),
      version: `3.${minor}`,
      patch,
      hasVenv: facts.venv,
      hasPip: facts.pip,
    };
  } catch {
    return null;
  }
}
