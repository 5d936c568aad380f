// Limits what the steps of image builds use. The engine's builder takes no limits, so they are set
// on the cgroup of each step as soon as it runs. Also notes the folders that steps write to. Needs
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
import type { MachineFiles } from "./own-container.ts";

export type StepLimits = {
  /** Where the engine keeps its data. */
  readonly engineRoot: string;
  readonly machine: MachineFiles;
  readonly limits: CgroupLimits;
};

/**
 * Returns a host name that marks all steps of a project's builds. Builds with secrets have a mark
 * of their app instead: the builder compares only the names of secrets, and two apps may have
 * different values for the same name. No step can have the mark of another project or app.
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
  readonly #machine: MachineFiles;
  readonly #limits: CgroupLimits;
  readonly #mark: string;
  /** The ids of the steps that need no further look: they are limited, or have ended. */
  readonly #limited = new Set<string>();
  /** The cgroup in which the engine makes the cgroups of steps; empty until the first is found. */
  #parents: Cgroup = [];
  /** The folders of the files that steps have written, except their cache mounts. */
  readonly written = new Set<string>();

  constructor({ engineRoot, machine, limits }: StepLimits, mark: string) {
    this.#machine = machine;
    this.#folder = join(engineRoot, "buildkit/executor");
    this.#engineRoot = engineRoot;
    this.#limits = limits;
    this.#mark = mark;
  }

  /** Limits the steps that have begun; until this is called, a new step can use more. */
  look(): void {
    const { root, mountinfo } = this.#machine;
    const isNew = (id: string): boolean => !this.#limited.has(id) && this.#isMarked(id);
    const steps = runningSteps(join(root, this.#folder)).filter(isNew);
    if (steps.length === 0) return;
    const mounts = readText(mountinfo);
    for (const id of steps) {
      // The path may be relative to the engine's folder of overlays.
      const folder = upperFolder(mounts, join(this.#folder, id, "rootfs"));
      if (folder !== null)
        this.written.add(join(root, resolve(this.#engineRoot, "overlay2", folder)));
      const group = this.#groupOf(id);
      if (group.length > 0 && limitStep(group, this.#limits)) this.#limited.add(id);
    }
  }

  /**
   * Whether the hosts file of the step contains the mark. The step's configuration also contains
   * text that the step chooses, but quotes in that text are escaped, so it cannot look like
   * `start`. After `start`, the path goes on until the next quote.
   */
  #isMarked(id: string): boolean {
    const { root } = this.#machine;
    const start = `"source":"${this.#folder}/hosts`;
    const [, rest = ""] = readText(join(root, this.#folder, id, "config.json")).split(start, 2);
    return readText(join(root, `${this.#folder}/hosts${rest.split('"', 1)[0]}`)).includes(
      this.#mark,
    );
  }

  /**
   * Returns the step's cgroup; empty while the step does not run yet. The processes of the machine
   * are searched only for the first step: the other steps have their cgroups beside it.
   */
  #groupOf(id: string): Cgroup {
    const group = this.#parents.map((parent) => ({ ...parent, folder: join(parent.folder, id) }));
    if (group.length > 0) return group.every(({ folder }) => existsSync(folder)) ? group : [];
    const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
    const runsStep = (pid: string): boolean => readText(`/proc/${pid}/cgroup`).includes(id);
    // The step's process is probably one of the newest, at the end of the list.
    const stepPid = pids.toReversed().find(runsStep);
    const firstGroup =
      stepPid === undefined ? [] : groupOfProcess(stepPid, { name: id, ...this.#machine });
    this.#parents = firstGroup.map((part) => ({ ...part, folder: dirname(part.folder) }));
    return firstGroup;
  }
}

/** Returns the ids of the steps that run: BuildKit has a folder for each, beside shared files. */
function runningSteps(folder: string): string[] {
  if (!existsSync(folder)) return [];
  const entries = readdirSync(folder, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

/**
 * Returns true when the step is limited now, or has ended; false when it already uses more than the
 * limit, so that no limit could be set.
 */
function limitStep(group: Cgroup, limits: CgroupLimits): boolean {
  try {
    limitGroup(group, limits);
    return true;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EBUSY") return false;
    // The step has ended.
    if (code === "ENOENT" || code === "ENODEV") return true;
    throw error;
  }
}
