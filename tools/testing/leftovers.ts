// What a run of the tests must not leave behind: processes and temporary files. The run has a temporary folder of its own,
// named in TMPDIR: what is in it at the end was left, and so was every process that mentions it.
import { spawnSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { removeFolder } from "@slipway/server/test/support/folder.ts";

/** A process that outlived the run. */
export type LeftProcess = { readonly pid: number; readonly command: string };

/** The temporary folder of one run. */
export type RunFolder = {
  readonly path: string;
  /** Makes a folder in it that is none of what tests leave. */
  apart(name: string): string;
  /** Names of files and folders that are still in it. */
  filesLeft(): string[];
  /** Processes whose command line, environment or working folder names it; always empty where there is no /proc. */
  processesLeft(): LeftProcess[];
  remove(): void;
};

/** Makes the folder; its name is short, because paths of Unix sockets are limited. */
export function makeRunFolder(): RunFolder {
  const path = mkdtempSync(join(tmpdir(), "slipway-"));
  const tablesBefore = new Set(networkTables());
  // Programs that give up the rights of root must be able to pass through.
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
    },
  };
}

/**
 * Rules of networks of replicas (see drivers/process/network.ts), in tables of one installation each. A platform that a
 * test has killed does not take them back.
 */
function networkTables(): string[] {
  const listed = spawnSync("nft", ["list", "tables"], { encoding: "utf8" }).stdout ?? "";
  return [...listed.matchAll(/^table inet (slipway_[0-9a-f]+)$/gm)].map(([, name = ""]) => name);
}

/** One whose replicas run belongs to a platform that started meanwhile. */
function removeTable(table: string): void {
  const isUsed = readdirSync("/sys/class/net").some((name) => name.startsWith(table.replace("slipway_", "slp")));
  if (!isUsed) spawnSync("nft", ["delete", "table", "inet", table]);
}

function processesNaming(path: string): LeftProcess[] {
  const own = new Set([process.pid, process.ppid]);
  const pids = listProcesses().filter((pid) => !own.has(pid));
  return pids.flatMap((pid) => {
    const command = readProcess(pid, "cmdline").replaceAll("\0", " ").trim();
    const isNaming = [command, readProcess(pid, "environ"), workingFolder(pid)].some((text) => text.includes(path));
    // A process that has ended and that nobody asked about yet has no command line.
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

/** The empty text for a process that is gone or another user's. */
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
