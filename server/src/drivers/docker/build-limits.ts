// Limits what the steps of image builds use. The engine's builder takes no limits, so they are set on the cgroup of each step as
// soon as it runs, and the folder that it writes to is noted. Needs root, and an engine on this machine.
import { existsSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { limitGroup, type CgroupLimits } from "#drivers/process/cgroup.ts";
import { groupOfProcess } from "#drivers/process/cgroup-detect.ts";
import { readText } from "#drivers/process/read-text.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { KeyedNames } from "./keyed-names.ts";

export type StepLimits = {
  /** Where the engine keeps its data. */
  readonly engineRoot: string;
  readonly limits: CgroupLimits;
};

/** A host name in all steps of one project's builds. No step can have the mark of another project. */
export function stepMark(names: KeyedNames, projectId: ProjectId): string {
  return `${names("step", projectId)}.build.slipway.internal`;
}

/** A step whose folder is not known by then is stored in another way. */
const looksMax = 20;

/** The steps that run with one mark. */
export class BuildSteps {
  readonly #folder: string;
  readonly #engineRoot: string;
  readonly #limits: CgroupLimits;
  readonly #mark: string;
  /** How often each was looked at. */
  readonly #looks = new Map<string, number>();
  /** The folders that hold what steps have written, but for their cache mounts. */
  readonly written = new Set<string>();

  constructor({ engineRoot, limits }: StepLimits, mark: string) {
    this.#folder = join(engineRoot, "buildkit/executor");
    this.#engineRoot = engineRoot;
    this.#limits = limits;
    this.#mark = mark;
  }

  /** Limits those that have begun. A step can use more until it has been seen. */
  look(): void {
    const isNew = (id: string): boolean =>
      (this.#looks.get(id) ?? 0) < looksMax && isMarked(this.#folder, id, this.#mark);
    for (const id of runningSteps(this.#folder).filter(isNew)) {
      const pid = processOf(id);
      if (pid === null || !limitStep(pid, id, this.#limits)) continue;
      // The step's process is the engine's at first, with the files of the machine.
      const folder = writtenBy(pid);
      this.#looks.set(id, folder === null ? (this.#looks.get(id) ?? 0) + 1 : looksMax);
      if (folder !== null) this.written.add(resolve(this.#engineRoot, "overlay2", folder));
    }
  }
}

/** BuildKit has a folder for each step that runs, beside files that steps share. */
function runningSteps(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

/** What the step itself chooses is in this file too, but quotes in it are escaped. */
function isMarked(folder: string, id: string, mark: string): boolean {
  const start = `"source":"${folder}/hosts`;
  const [, rest = ""] = readText(join(folder, id, "config.json")).split(start, 2);
  return readText(`${folder}/hosts${rest.split('"', 1)[0]}`).includes(mark);
}

/** Null while it does not run yet. */
function processOf(id: string): string | null {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.find((pid) => groupOfProcess(pid, id).length > 0) ?? null;
}

/** False while the step uses more than the limit at the moment. */
function limitStep(pid: string, id: string, limits: CgroupLimits): boolean {
  try {
    limitGroup(groupOfProcess(pid, id), limits);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EBUSY") return false;
    // It has ended.
    if (code === "ENOENT" || code === "ENODEV") return true;
    throw error;
  }
}

/** The folder with its changes, where the engine stores images as overlays; one that is not absolute begins in the engine's own folder for them. */
function writtenBy(pid: string): string | null {
  const root = readText(`/proc/${pid}/mountinfo`)
    .split("\n")
    .find((line) => line.split(" ")[4] === "/");
  return /[ ,]upperdir=([^, ]+)/.exec(root ?? "")?.[1] ?? null;
}
