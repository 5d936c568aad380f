// Makes the command line one package for npm, which needs neither the platform's dependencies nor a
// checkout: `node tools/pack-cli.ts <folder>` writes its archive there and prints its path. Whoever
// has Node.js 24 can install it. With `--executable` it writes one program instead, which needs
// nothing: it contains the Node.js of this machine.
import { execFileSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { build, type BuildOptions, type Metafile } from "esbuild";
import { projectDir } from "./tidy/tree.ts";

const readme = `# The command line of Slipway

Deploys apps to a Slipway platform, calls them, and shows what they do: \`slipway --help\`.
To sign in: \`slipway login --url <the platform's URL>\`.
`;
const common = {
  entryPoints: [join(projectDir, "cli/src/main.ts")],
  absWorkingDir: projectDir,
  bundle: true,
  format: "esm",
  platform: "node",
  target: "node24",
  minify: true,
  // Names of classes and functions show in messages.
  keepNames: true,
  metafile: true,
  // `slipway start` says where to get it.
  external: ["@slipway/server/src/run-platform.ts"],
  logLevel: "warning",
} as const satisfies BuildOptions;

const { values, positionals } = parseArgs({
  options: { executable: { type: "boolean" } },
  allowPositionals: true,
});
const folder = resolve(positionals[0] ?? "cli/dist");
const work = mkdtempSync(join(tmpdir(), "slipway-pack-"));
try {
  mkdirSync(folder, { recursive: true });
  const name = await (values.executable === true ? packExecutable : pack)(work, folder);
  process.stdout.write(`${join(folder, name)}\n`);
} finally {
  rmSync(work, { recursive: true });
}

/**
 * Packages of the older kind ask for modules of Node.js with it. `from`: a file's name or address.
 */
function requireFrom(from: string): string {
  return `import{createRequire as slipwayRequire}from"node:module";const require=slipwayRequire(${from});`;
}

/** The archive's name. */
async function pack(packageDir: string, target: string): Promise<string> {
  const { metafile } = await build({
    ...common,
    outdir: join(packageDir, "dist"),
    // Commands stay files of their own, which are read when they are used.
    splitting: true,
    banner: { js: requireFrom("import.meta.url") },
  });
  addFiles(packageDir, metafile);
  const printed = execFileSync(
    "npm",
    ["pack", "--json", "--ignore-scripts", "--pack-destination", target],
    {
      cwd: packageDir,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "inherit"],
    },
  );
  const [packed] = JSON.parse(printed) as { filename: string }[];
  if (packed === undefined) throw new Error(`npm pack printed ${printed}`);
  return packed.filename;
}

/** The program's name. Its assets are the other files of the package. */
async function packExecutable(packageDir: string, target: string): Promise<string> {
  const main = join(packageDir, "main.mjs");
  const { metafile } = await build({
    ...common,
    outfile: main,
    banner: { js: requireFrom("process.execPath") },
  });
  addFiles(packageDir, metafile);
  const runtime = globSync("runtime/**/*.py", { cwd: packageDir });
  const assets = Object.fromEntries(
    ["package.json", ...runtime].map((path) => [path, join(packageDir, path)]),
  );
  const output = join(target, "slipway");
  const config = {
    main,
    mainFormat: "module",
    output,
    assets,
    disableExperimentalSEAWarning: true,
  };
  writeFileSync(join(packageDir, "executable.json"), JSON.stringify(config));
  execFileSync(process.execPath, ["--build-sea", join(packageDir, "executable.json")], {
    stdio: "ignore",
  });
  cpSync(join(packageDir, "THIRD-PARTY-LICENSES.txt"), join(target, "THIRD-PARTY-LICENSES.txt"));
  return "slipway";
}

/** What both have beside the program. */
function addFiles(packageDir: string, metafile: Metafile): void {
  writeFileSync(join(packageDir, "package.json"), `${JSON.stringify(manifest(), null, 2)}\n`);
  writeFileSync(join(packageDir, "THIRD-PARTY-LICENSES.txt"), licensesOf(metafile));
  writeFileSync(join(packageDir, "README.md"), readme);
  // What `slipway dev` runs apps with.
  for (const name of ["start.py", "slipway_cortex", "fallback"]) {
    cpSync(join(projectDir, "runtimes/python", name), join(packageDir, "runtime", name), {
      recursive: true,
      filter: (path) => !path.includes("__pycache__"),
    });
  }
  cpSync(join(projectDir, "LICENSE"), join(packageDir, "LICENSE"));
}

function manifest(): object {
  const { name, version, description, license } = JSON.parse(
    readFileSync(join(projectDir, "cli/package.json"), "utf8"),
  ) as Record<string, string>;
  return {
    name,
    version,
    description,
    license,
    type: "module",
    bin: { slipway: "dist/main.js" },
    files: ["dist", "runtime", "THIRD-PARTY-LICENSES.txt"],
    engines: { node: ">=24" },
  };
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
  const file = readdirSync(packageDir).find((name) => /^licen[cs]e/i.test(name));
  if (file !== undefined && existsSync(join(packageDir, file)))
    return readFileSync(join(packageDir, file), "utf8");
  const { license } = JSON.parse(readFileSync(join(packageDir, "package.json"), "utf8")) as {
    license?: string;
  };
  return `License: ${license ?? "see its page"}`;
}
