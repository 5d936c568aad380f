// What the npm packages that this project makes have in common: bundled code in `dist/js`, the
// files of the Python runtime where the checkout has them, and the licenses of what is in the
// bundle.
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { BuildOptions, Metafile } from "esbuild";
import { projectDir } from "#tidy/tree.ts";

/** The oldest Node.js that the packages run on. */
export const nodeMin = "22.15";

/** For code of all packages. */
export const bundling = {
  absWorkingDir: projectDir,
  bundle: true,
  format: "esm",
  platform: "node",
  target: `node${nodeMin}`,
  minify: true,
  // Names of classes and functions show in messages.
  keepNames: true,
  metafile: true,
  logLevel: "warning",
} as const satisfies BuildOptions;

/**
 * The first line of a bundle: packages of the older kind ask for modules of Node.js with it.
 * `from`: a file's name or address.
 */
export function requireFrom(from: string): string {
  return `import{createRequire as slipwayRequire}from"node:module";const require=slipwayRequire(${from});`;
}

/** The fields of cli/package.json that packages share. */
export function commonManifest(): Record<"name" | "version" | "description" | "license", string> {
  const { name, version, description, license } = JSON.parse(
    readFileSync(join(projectDir, "cli/package.json"), "utf8"),
  ) as Record<"name" | "version" | "description" | "license", string>;
  return { name, version, description, license };
}

/** Writes what each package has beside its code. */
export function addFiles(
  packageDir: string,
  given: { readonly manifest: object; readonly readme: string; readonly metafile: Metafile },
): void {
  const write = (name: string, text: string): void => writeFileSync(join(packageDir, name), text);
  write("package.json", `${JSON.stringify(given.manifest, null, 2)}\n`);
  write("THIRD-PARTY-LICENSES.txt", licensesOf(given.metafile));
  write("README.md", given.readme);
  cpSync(join(projectDir, "LICENSE"), join(packageDir, "LICENSE"));
  for (const name of ["start.py", "slipway_cortex", "fallback"])
    copyFile(packageDir, join("runtimes/python", name));
}

/** Copies a file or a folder of the checkout to the same path of the package. */
export function copyFile(packageDir: string, path: string): void {
  cpSync(join(projectDir, path), join(packageDir, path), {
    recursive: true,
    filter: (one) => !one.includes("__pycache__"),
  });
}

/** Packs the folder as npm publishes it; returns the name of the archive in the target folder. */
export function packFolder(packageDir: string, target: string): string {
  const printed = execFileSync(
    "npm",
    ["pack", "--json", "--ignore-scripts", "--pack-destination", target],
    { cwd: packageDir, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] },
  );
  const [packed] = JSON.parse(printed) as { filename: string }[];
  if (packed === undefined) throw new Error(`npm pack printed ${printed}`);
  return packed.filename;
}

/** The terms of the packages that the bundle contains. */
function licensesOf({ inputs }: Metafile): string {
  const packages = Object.keys(inputs).map(
    (path) => /^(?:.*\/)?node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1],
  );
  const names = [...new Set(packages.filter((name) => name !== undefined))].toSorted();
  return names
    .map((name) => `${name}\n\n${licenseOf(join(projectDir, "node_modules", name))}\n`)
    .join(`${"-".repeat(80)}\n`);
}

function licenseOf(packageDir: string): string {
  // A version that only one workspace has is installed in that workspace.
  if (!existsSync(packageDir)) return "License: see its page";
  const file = readdirSync(packageDir).find((name) => /^licen[cs]e/i.test(name));
  if (file !== undefined) return readFileSync(join(packageDir, file), "utf8");
  const { license } = JSON.parse(readFileSync(join(packageDir, "package.json"), "utf8")) as {
    license?: string;
  };
  return `License: ${license ?? "see its page"}`;
}
