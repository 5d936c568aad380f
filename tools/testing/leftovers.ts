// Detects what a test run must not leave behind: processes and temporary files. The run has its own
// temporary folder, named in TMPDIR: everything in it at the end is a leftover, and so is every
// process that mentions it.
import { spawnSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { removeFolder } from "@slipway/server/test/support/folder.ts";
import { isAlive } from "@slipway/server/test/support/is-alive.ts";

/** A process that outlived the run. */
export type LeftProcess = { readonly pid: number; readonly command: string };

/** The temporary folder of one run. */
export type RunFolder = {
  readonly path: string;
  /** Creates a folder in it that does not count as a leftover. */
  apart(name: string): string;
  /** Names of files and folders that are still in it. */
  filesLeft(): string[];
  /**
   * Processes whose command line, environment or working directory names it; always empty where
   * there is no /proc.
   */
  processesLeft(): LeftProcess[];
  remove(): void;
};

/** Creates the folder; its name is short, because paths of Unix sockets have a maximum length. */
export function makeRunFolder(): RunFolder {
  const path = mkdtempSync(join(tmpdir(), "slipway-"));
  const tablesBefore = new Set(networkTables());
  // Programs that drop root privileges must be able to traverse it.
  chmodSync(path, 0o711);
  const apart = new Set<string>();
  return {
    path,
    apart: (name) => {
      apart.add(name);
      mkdirSync(join(path, name));
      return join(path, name);
    },
    filesLeft: () =>
      readdirSync(path)
        .filter((name) => !apart.has(name))
        .sort(),
    processesLeft: () => processesNaming(path),
    remove: () => {
      removeFolder(path);
      for (const table of networkTables()) if (!tablesBefore.has(table)) removeTable(table);
      removeClocksOfTheDead();
    },
  };
}

/**
 * nftables rules for replica networks (see drivers/process/network.ts), in tables per installation.
 * A platform killed by a test does not remove them.
 */
function networkTables(): string[] {
  const listed = spawnSync("nft", ["list", "tables"], { encoding: "utf8" }).stdout ?? "";
  return [...listed.matchAll(/^table inet (slipway_[0-9a-f]+)$/gm)].map(([, name = ""]) => name);
}

/**
 * Keeps a table that replicas use, as processes or containers, or builds on the bridge of an
 * engine: it belongs to a platform, or to another run, that has started in the meantime.
 */
function removeTable(table: string): void {
  const links = ["slp", "slb"].map((prefix) => table.replace("slipway_", prefix));
  const limited =
    spawnSync("nft", ["list", "map", "inet", table, "egress"], { encoding: "utf8" }).stdout ?? "";
  const isUsed = readdirSync("/sys/class/net").some(
    (name) => links.some((link) => name.startsWith(link)) || limited.includes(`"${name}"`),
  );
  if (!isUsed) spawnSync("nft", ["delete", "table", "inet", table]);
}

/** Shared memory of libfaketime, named by process: one that is killed does not remove it. */
function removeClocksOfTheDead(): void {
  const folder = "/dev/shm";
  for (const name of existsSync(folder) ? readdirSync(folder) : []) {
    const [, pid] = /^(?:faketime_shm|sem\.faketime_sem)_(\d+)$/.exec(name) ?? [];
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(folder, name), { force: true });
  }
}

function processesNaming(path: string): LeftProcess[] {
  const own = new Set([process.pid, process.ppid]);
  const pids = listProcesses().filter((pid) => !own.has(pid));
  return pids.flatMap((pid) => {
    const command = readProcess(pid, "cmdline").replaceAll("\0", " ").trim();
    const isNaming = [command, readProcess(pid, "environ"), workingFolder(pid)].some((text) =>
      text.includes(path),
    );
    // A zombie process has no command line.
    return isNaming && command !== "" ? [{ pid, command: command.slice(0, 200) }] : [];
  });
}

function listProcesses(): number[] {
  try {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
}

/** Empty for a process that has exited or belongs to another user. */
function readProcess(pid: number, file: "cmdline" | "environ"): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "utf8");
  } catch {
    return "";
  }
}

function workingFolder(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return "";
  }
}
