// Finds the programs that a benchmark needs besides node, and the versions of what it compares.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { projectDir } from "#tidy/tree.ts";

/** The path of a program. Throws when it is not installed. */
export function findProgram(name: string): string {
  const found = spawnSync("sh", ["-c", 'command -v -- "$1"', "sh", name], {
    encoding: "utf8",
    env: { ...process.env, PATH: `${process.env["PATH"] ?? ""}:/usr/sbin:/sbin` },
  });
  if (found.status === 0) return found.stdout.trim();
  throw new Error(`this benchmark needs the program ${name}; install it and try again`);
}

/** The version line that a program prints. */
export function versionOf(program: string, ...args: string[]): string {
  const { stdout, stderr } = spawnSync(program, args, { encoding: "utf8" });
  return (stdout + stderr).split("\n")[0]?.trim() ?? "unknown";
}

/** The version of an installed npm package. */
export function packageVersion(name: string): string {
  const manifest = readFileSync(join(projectDir, "node_modules", name, "package.json"), "utf8");
  return (JSON.parse(manifest) as { readonly version: string }).version;
}
