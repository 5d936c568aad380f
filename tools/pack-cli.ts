// Makes the command line one package for npm, which needs neither the platform's dependencies nor a
// checkout: `node tools/pack-cli.ts <folder>` writes its archive there and prints its path. With
// `--executable` it writes one program instead, which needs nothing: it contains the Node.js of
// this machine.
import { execFileSync } from "node:child_process";
import { cpSync, globSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { build, type BuildOptions, type Metafile } from "esbuild";
import {
  addFiles,
  bundling,
  commonManifest,
  nodeMin,
  packFolder,
  requireFrom,
} from "./pack/package-files.ts";
import { projectDir } from "./tidy/tree.ts";

const readme = `# The command line of Slipway

Deploys apps to a Slipway platform, calls them, and shows what they do: \`slipway --help\`.
To sign in: \`slipway login --url <the platform's URL>\`.
`;
const common = {
  ...bundling,
  entryPoints: [join(projectDir, "cli/src/main.ts")],
  // `slipway start` says where to get it.
  external: ["@slipway/server/src/run-platform.ts"],
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

/** The archive's name. */
async function pack(packageDir: string, target: string): Promise<string> {
  const { metafile } = await build({
    ...common,
    outdir: join(packageDir, "dist/js"),
    // Commands stay files of their own, which are read when they are used.
    splitting: true,
    banner: { js: requireFrom("import.meta.url") },
  });
  addOwnFiles(packageDir, metafile);
  return packFolder(packageDir, target);
}

/** The program's name. Its assets are the Python files of the package. */
async function packExecutable(packageDir: string, target: string): Promise<string> {
  const main = join(packageDir, "main.mjs");
  const { metafile } = await build({
    ...common,
    outfile: main,
    banner: { js: requireFrom("process.execPath") },
  });
  addOwnFiles(packageDir, metafile);
  const runtime = globSync("runtimes/**/*.py", { cwd: packageDir });
  const assets = Object.fromEntries(runtime.map((path) => [path, join(packageDir, path)]));
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

function addOwnFiles(packageDir: string, metafile: Metafile): void {
  const manifest = {
    ...commonManifest(),
    type: "module",
    bin: { slipway: "dist/js/main.js" },
    files: ["dist", "runtimes", "THIRD-PARTY-LICENSES.txt"],
    engines: { node: `>=${nodeMin}` },
  };
  addFiles(packageDir, { manifest, readme, metafile });
}
