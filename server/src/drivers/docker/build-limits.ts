// Limits what the steps of image builds use. The engine's builder takes no limits, so they are set
// on the cgroup of each step as soon as it runs, and the folder that it writes to is noted. Needs
// root, and an engine on this machine.
import { existsSync, readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { BuildPlan } from "#drivers/builder.ts";
import { limitGroup, type Cgroup, type CgroupLimits } from "#drivers/process/cgroup.ts";
import { groupOfProcess } from "#drivers/process/cgroup-detect.ts";
import { readText } from "#drivers/process/read-text.ts";
import { projectIdOf } from "#lib/ids.ts";
import type { KeyedNames } from "./keyed-names.ts";
import { upperFolder } from "./overlay.ts";

export type StepLimits = {
  /** Where the engine keeps its data. */
  readonly engineRoot: string;
  readonly limits: CgroupLimits;
};

/**
 * A host name in all steps of one project's builds, or of one app's where they get secrets: apps
 * may have other values for the same names, and the builder compares only the names. No step can
 * have the mark of another project or app.
 */
export function stepMark(
  names: KeyedNames,
  { appId, secretNames }: Pick<BuildPlan, "appId" | "secretNames">,
): string {
  return `${names("step", secretNames.length > 0 ? appId : projectIdOf(appId))}.build.slipway.internal`;
}

/** The steps that run with one mark. */
export class BuildSteps {
  readonly #folder: string;
  readonly #engineRoot: string;
  readonly #limits: CgroupLimits;
  readonly #mark: string;
  readonly #limited = new Set<string>();
  /** The cgroups in which the engine makes those of steps; empty until one is found. */
  #parents: Cgroup = [];
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
      !this.#limited.has(id) && isMarked(this.#folder, id, this.#mark);
    const steps = runningSteps(this.#folder).filter(isNew);
    if (steps.length === 0) return;
    const mounts = readText("/proc/self/mountinfo");
    for (const id of steps) {
      // It may begin in the engine's own folder for them.
      const folder = upperFolder(mounts, join(this.#folder, id, "rootfs"));
      if (folder !== null) this.written.add(resolve(this.#engineRoot, "overlay2", folder));
      const group = this.#groupOf(id);
      if (group.length > 0 && limitStep(group, this.#limits)) this.#limited.add(id);
    }
  }

  /**
   * Empty while it does not run yet. Only for the first one are the processes of the machine looked
   * through.
   */
  #groupOf(id: string): Cgroup {
    const group = this.#parents.map((one) => ({ ...one, folder: join(one.folder, id) }));
    if (group.length > 0) return group.every(({ folder }) => existsSync(folder)) ? group : [];
    const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
    const pid = pids.toReversed().find((one) => readText(`/proc/${one}/cgroup`).includes(id));
    const found = pid === undefined ? [] : groupOfProcess(pid, id);
    this.#parents = found.map((one) => ({ ...one, folder: dirname(one.folder) }));
    return found;
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

/** False while the step uses more than the limit at the moment. */
function limitStep(group: Cgroup, limits: CgroupLimits): boolean {
  try {
    limitGroup(group, limits);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EBUSY") return false;
    // It has ended.
    if (code === "ENOENT" || code === "ENODEV") return true;
    throw error;
  }
}
