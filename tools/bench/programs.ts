// Finds the programs that a benchmark needs besides node, and installs them from the distribution's
// packages where that is allowed.
import { spawnSync } from "node:child_process";

/** The path of a program; null: not installed. */
export function findProgram(name: string): string | null {
  const found = spawnSync("sh", ["-c", 'command -v -- "$1"', "sh", name], {
    encoding: "utf8",
    env: { ...process.env, PATH: `${process.env["PATH"] ?? ""}:/usr/sbin:/sbin` },
  });
  return found.status === 0 ? found.stdout.trim() : null;
}

/** Installs Debian packages when run as root; returns why it could not, or null. */
export function installPackages(packages: readonly string[]): string | null {
  if (process.getuid?.() !== 0) return `only root can install ${packages.join(", ")}`;
  if (findProgram("apt-get") === null) return "there is no apt-get here";
  const options = {
    encoding: "utf8",
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
  } as const;
  spawnSync("apt-get", ["update", "-qq"], options);
  const installed = spawnSync(
    "apt-get",
    ["install", "-y", "-qq", "--no-install-recommends", ...packages],
    options,
  );
  return installed.status === 0
    ? null
    : `apt-get install failed: ${installed.stderr.trim().split("\n").at(-1) ?? ""}`;
}

/** The version line that a program prints. */
export function versionOf(program: string, ...args: string[]): string {
  const { stdout, stderr } = spawnSync(program, args, { encoding: "utf8" });
  return (stdout + stderr).split("\n")[0]?.trim() ?? "unknown";
}
