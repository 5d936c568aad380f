// Finds the Pythons of this machine: `python3…` on the PATH and the versions of pyenv. Each is started once, since a
// shim may lead to nothing and a link to something else; what it says about itself is kept for the process's life.
import { readdir, realpath } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { runCommand } from "#lib/command.ts";
import type { Python } from "./python-choice.ts";

/** What an interpreter says about itself. `base_prefix` leads out of virtual environments, `executable` out of shims. */
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
const answerWaitMs = 10_000;
/** Started at the same time. */
const questionsAtOnce = 4;

/** Knows the interpreters that are there. */
export class PythonFinder {
  readonly #environment: Readonly<Record<string, string>>;
  readonly #answers = new Map<string, Promise<Python | null>>();

  /** `environment`: PATH and PYENV_ROOT count. */
  constructor(options: { readonly environment: Readonly<Record<string, string>> }) {
    this.#environment = options.environment;
  }

  /** Those of one version, for example `3.11`; quick, since only programs with that name are started. */
  async ofVersion(version: string): Promise<Python[]> {
    const names = (await this.#candidates()).filter((path) => path.endsWith(`/python${version}`));
    return (await this.#ask(names)).filter((python) => python.version === version);
  }

  /** All of them. */
  async all(): Promise<Python[]> {
    return await this.#ask(await this.#candidates());
  }

  /** Programs called python3 or python3.x; those of pyenv first, since they are no scripts. */
  async #candidates(): Promise<string[]> {
    const root = this.#environment["PYENV_ROOT"] ?? join(homedir(), ".pyenv");
    const versions = await readdir(join(root, "versions")).catch(() => []);
    const pyenv = versions.map((version) => join(root, "versions", version, "bin"));
    const path = (this.#environment["PATH"] ?? "").split(":").filter((folder) => folder.startsWith("/"));
    // Shims lead to the versions that are looked at anyway, and are slow.
    const folders = [...pyenv, ...path.filter((folder) => folder !== join(root, "shims"))];
    const found: string[] = [];
    for (const folder of new Set(folders)) {
      const names = await readdir(folder).catch(() => []);
      found.push(...names.filter((name) => /^python3(\.\d+)?$/.test(name)).map((name) => join(folder, name)));
    }
    return found;
  }

  async #ask(paths: readonly string[]): Promise<Python[]> {
    const found = new Map<string, Python>();
    const line = [...paths];
    const work = async (): Promise<void> => {
      for (let path = line.shift(); path !== undefined; path = line.shift()) {
        const python = await this.#answer(path);
        if (python !== null && !found.has(python.path)) found.set(python.path, python);
      }
    };
    await Promise.all(Array.from({ length: questionsAtOnce }, work));
    return [...found.values()];
  }

  /** What the program says, asked once when it lacks nothing; null when it does not start or is no Python 3. */
  async #answer(path: string): Promise<Python | null> {
    const real = await realpath(path).catch(() => path);
    let answer = this.#answers.get(real);
    if (answer === undefined) {
      answer = askPython(real, this.#environment);
      this.#answers.set(real, answer);
    }
    const python = await answer;
    // What is broken or lacks a part may be mended while the platform runs.
    if (python === null || !python.hasVenv || !python.hasPip) this.#answers.delete(real);
    return python;
  }
}

async function askPython(path: string, environment: Readonly<Record<string, string>>): Promise<Python | null> {
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
    const said = JSON.parse(output) as { path: string; version: [number, number, number]; venv: boolean; pip: boolean };
    const [major, minor, patch] = said.version;
    if (major !== 3) return null;
    return { path: await realpath(said.path), version: `3.${minor}`, patch, hasVenv: said.venv, hasPip: said.pip };
  } catch {
    return null;
  }
}
