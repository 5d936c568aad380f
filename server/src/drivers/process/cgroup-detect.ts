// Finds, once at start, where the platform can create cgroups: for each controller in the unified
// hierarchy (version 2) or in its own (version 1), beside or below the platform's cgroup. Tests
// each location by creating a cgroup and entering it.
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import * as groups from "./cgroup.ts";
import { readText } from "./read-text.ts";

/** Where to create cgroups, and why some controllers are unavailable. */
export type Cgroups = {
  /** At most one per controller; only the platform uses the folder. */
  readonly parents: readonly groups.CgroupParent[];
  /** A part of a sentence for the operator; empty when all controllers are available. */
  readonly missing: string;
};

/** The machine's own description of its cgroups. */
type CgroupSources = {
  /** The text of a file mountinfo, which lists the mounts. */
  readonly mountinfo: string;
  /** The text of /proc/<pid>/cgroup of the examined process. */
  readonly own: string;
  /** Stands before the paths of mounts. */
  readonly root: string;
};

type Hierarchy = {
  readonly version: 1 | 2;
  /** The path at which the hierarchy is mounted. */
  readonly mount: string;
  /** The folder of the cgroup that the platform, or another examined process, is in. */
  readonly ownFolder: string;
  readonly controllers: readonly groups.Controller[];
};

/** The controllers that the platform uses. */
const usedControllers = ["memory", "cpu", "pids"] as const;

/**
 * Finds where this process can create cgroups. The names of the platform's own cgroups contain
 * `instanceId`.
 */
export function detectCgroups(instanceId: string): Cgroups {
  const sources = readSources();
  if (sources === null)
    return { parents: [], missing: `there are no cgroups on ${process.platform}` };
  const name = `slipway-${instanceId}`;
  const parents: groups.CgroupParent[] = [];
  const hasParent = (used: groups.Controller): boolean =>
    parents.some(({ controller }) => controller === used);
  const problems: string[] = [];
  for (const hierarchy of hierarchies(sources)) {
    const controllers = hierarchy.controllers.filter((controller) => !hasParent(controller));
    if (controllers.length === 0) continue;
    parents.push(...firstParent({ ...hierarchy, controllers }, name, problems));
  }
  const lacking = usedControllers.filter((controller) => !hasParent(controller));
  if (lacking.length === 0) return { parents, missing: "" };
  const why = problems[0] ?? "the machine has no such cgroup controllers";
  return { parents, missing: `${lacking.join(", ")}: ${why}` };
}

/**
 * Removes cgroups that an earlier process of the platform left, except kept names and cgroups with
 * running processes.
 */
export function removeLeftGroups({ parents }: Cgroups, isKept: (name: string) => boolean): void {
  for (const parent of parents) {
    for (const name of groups.groupNames(parent)) {
      if (!isKept(name)) groups.removeGroup(groups.groupAt([parent], name));
    }
  }
}

/** Removes the parent folders, unless they still contain cgroups. */
export function releaseCgroups({ parents }: Cgroups): void {
  groups.removeGroup(parents);
}

/**
 * The cgroup that a process is in, whoever has created it, if its folders end with `name`; else
 * empty. `mountinfo`: the file with the mounts of the machine; `root` stands before their paths.
 */
export function groupOfProcess(
  pid: string,
  { name, mountinfo, root }: Readonly<Record<"name" | "mountinfo" | "root", string>>,
): groups.Cgroup {
  const sources = {
    root,
    mountinfo: readText(mountinfo),
    own: readText(`/proc/${pid}/cgroup`),
  };
  if (!sources.own.includes(name)) return [];
  const parents = hierarchies(sources).flatMap(({ version, ownFolder, controllers }) =>
    controllers.map((controller) => ({ controller, version, folder: ownFolder })),
  );
  return parents.filter(({ folder }) => folder.endsWith(name));
}

function readSources(): CgroupSources | null {
  const sources = {
    root: "",
    mountinfo: readText("/proc/self/mountinfo"),
    own: readText("/proc/self/cgroup"),
  };
  return sources.mountinfo === "" || sources.own === "" ? null : sources;
}

/**
 * The cgroup hierarchies of the machine, the unified one first. A line of mountinfo (see proc(5)):
 * `id parent device root mount … - type source options`.
 */
function hierarchies({ mountinfo, own, root: machineRoot }: CgroupSources): readonly Hierarchy[] {
  const mounted: Hierarchy[] = [];
  for (const line of mountinfo.split("\n")) {
    const [before = "", after = ""] = line.split(" - ");
    const [, , , root = "/", mountPoint = ""] = before.split(" ");
    const mount = join(machineRoot, mountPoint);
    const [type, , options = ""] = after.split(" ");
    if (type !== "cgroup" && type !== "cgroup2") continue;
    const version = type === "cgroup2" ? 2 : 1;
    const controllers = usedControllers.filter((controller) =>
      version === 2
        ? controllersIn(join(mount, "cgroup.controllers")).includes(controller)
        : options.split(",").includes(controller),
    );
    const path = ownPath(own, version === 2 ? "" : (controllers[0] ?? ""));
    // In a container the mount shows only a part of the hierarchy.
    const below = root !== "/" && path.startsWith(root) ? path.slice(root.length) : path;
    const folder = existsSync(join(mount, below)) ? join(mount, below) : mount;
    // A slash at the end is removed, unless it is the whole path.
    const ownFolder = folder.replace(/(?<=.)\/$/, "");
    if (controllers.length > 0) mounted.push({ version, mount, ownFolder, controllers });
  }
  return mounted.sort((a, b) => b.version - a.version);
}

/**
 * The path of the cgroup that a process is in. `own` is the text of its /proc/<pid>/cgroup, with
 * lines like `4:memory:/path`, and `0::/path` for version 2.
 */
function ownPath(own: string, controller: string): string {
  const line = own.split("\n").find((candidate) => {
    // An empty line names no controller, not even the empty name of version 2.
    const [, controllers = "-"] = candidate.split(":");
    return controllers.split(",").includes(controller);
  });
  // The path itself may contain colons.
  return line?.split(":").slice(2).join(":") ?? "/";
}

/**
 * Finds the first folder below which cgroups can be created. It tries beside the platform's own
 * cgroup, where no process has to move; then below it; then at the top. Adds to `problems` why a
 * folder cannot be used.
 */
function firstParent(
  hierarchy: Hierarchy,
  name: string,
  problems: string[],
): readonly groups.CgroupParent[] {
  const { version, mount } = hierarchy;
  // An earlier call may have moved the platform into the leaf (see `enable`).
  const isInLeaf = basename(hierarchy.ownFolder) === leafName(name);
  const ownFolder = isInLeaf ? dirname(hierarchy.ownFolder) : hierarchy.ownFolder;
  // In version 1, a cgroup with processes may have others below it, so none beside it is needed.
  const beside = version === 2 && ownFolder !== mount ? [dirname(ownFolder)] : [];
  for (const parent of new Set([...beside, ownFolder, mount])) {
    const folder = join(parent, name);
    const isNew = !existsSync(folder);
    try {
      mkdirSync(folder, { recursive: true });
      if (version === 2) {
        enable(parent, hierarchy.controllers, join(ownFolder, leafName(name)));
        enable(folder, hierarchy.controllers, null);
      }
      const available =
        version === 2
          ? controllersIn(join(folder, "cgroup.subtree_control"))
          : hierarchy.controllers;
      const parents = hierarchy.controllers
        .filter((controller) => available.includes(controller))
        .map((controller) => ({ controller, version, folder }));
      if (parents.length > 0) {
        // Throws when no process can enter a cgroup there, so that the next folder is tried.
        groups.enterable(parents);
        return parents;
      }
      problems.push(`${parent} hands out none of these controllers`);
    } catch (error) {
      problems.push(
        `${parent} cannot be used (${(error as NodeJS.ErrnoException).code ?? String(error)})`,
      );
    }
    if (isNew) removeFolder(folder);
  }
  return [];
}

/**
 * Delegates controllers to the cgroups below. The kernel refuses that for a cgroup with processes;
 * if only the platform uses it (a service with Delegate=yes, a container), its processes first move
 * into `leaf`, a cgroup below. Null: no process may move.
 */
function enable(
  folder: string,
  controllers: readonly groups.Controller[],
  leaf: string | null,
): void {
  const file = join(folder, "cgroup.subtree_control");
  for (const controller of controllers) {
    if (controllersIn(file).includes(controller)) continue;
    try {
      writeFileSync(file, `+${controller}`);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      // The parents did not delegate this controller.
      if (code === "ENOENT" || code === "EINVAL") continue;
      if (code !== "EBUSY" || leaf === null || dirname(leaf) !== folder) throw error;
      moveInto(leaf, folder);
      writeFileSync(file, `+${controller}`);
    }
  }
}

function leafName(name: string): string {
  return `${name}-platform`;
}

function moveInto(leaf: string, folder: string): void {
  mkdirSync(leaf, { recursive: true });
  const pids = readFileSync(join(folder, "cgroup.procs"), "utf8").split("\n").filter(Boolean);
  for (const pid of pids) {
    try {
      writeFileSync(join(leaf, "cgroup.procs"), pid);
    } catch (error) {
      // The process has exited meanwhile.
      if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
    }
  }
}

function controllersIn(file: string): readonly string[] {
  return readText(file).trim().split(" ");
}

function removeFolder(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // It does not exist, or belongs to somebody else.
  }
}
