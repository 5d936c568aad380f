// The service of the platform, as systemd has it.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import type { Installation } from "./installation.ts";
import { lastLogLines } from "./last-log-lines.ts";
import { Refused } from "./refused.ts";
import { dataDirLine } from "./service-unit.ts";

/** Where systemd looks for the unit. */
export const unitFile = "/etc/systemd/system/slipway.service";

/** Whether systemd is the service manager of this machine. */
export function hasSystemd(): boolean {
  return existsSync("/run/systemd/system");
}

/**
 * Whether systemd can close a socket with its service (version 249, 2021). Otherwise the next
 * connection would start a platform again that was stopped.
 */
export function canHoldSocket(): boolean {
  const { stdout } = spawnSync("systemctl", ["--version"], { encoding: "utf8" });
  return Number(/^systemd (\d+)/.exec(stdout)?.[1] ?? 0) >= 249;
}

/** Whether the platform of this data folder is a service. */
export function hasService({ dataDir }: Installation): boolean {
  if (!existsSync(unitFile)) return false;
  return readFileSync(unitFile, "utf8").split("\n").includes(dataDirLine(dataDir));
}

/** Whether the service runs or starts. */
export function isActive(): boolean {
  const { stdout } = spawnSync("systemctl", ["is-active", "slipway"], { encoding: "utf8" });
  return ["active", "activating", "reloading"].includes(stdout.trim());
}

/** Throws with what systemctl printed when it fails. */
export function systemctl(...words: readonly string[]): void {
  const { status, stderr } = spawnSync("systemctl", words, { encoding: "utf8" });
  if (status === 0) return;
  throw new Refused(
    `systemctl ${words.join(" ")} failed: ${stderr.trim()}\nTo see why: systemctl status slipway`,
  );
}

/** What a unit has printed last. */
export function lastLines(unit: string): string {
  // More than are shown.
  const options = [`--unit=${unit}`, "--output=cat", "--no-pager", "--lines=100"];
  const { stdout } = spawnSync("journalctl", options, { encoding: "utf8" });
  return lastLogLines(stdout);
}
