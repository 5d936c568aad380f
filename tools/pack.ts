// Makes the platform one package for npm, with the command line, the dashboard and the Python
// runtime, which needs no checkout: `node tools/pack.ts <folder>` writes its archive there and
// prints its path. All of its code is in the archive; the embedded PostgreSQL is a package of its
// own for each kind of machine.
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { build } from "esbuild";
import {
  addFiles,
  bundling,
  commonManifest,
  copyFile,
  nodeMin,
  packFolder,
  requireFrom,
} from "./pack/package-files.ts";
import { projectDir } from "./tidy/tree.ts";

const readme = `# Slipway

An open, self-hosted serverless platform for GPU and CPU apps.

\`slipway up\` starts the platform on this machine and signs the command line in. Then, in an empty
folder: \`slipway init\`, \`slipway deploy\`. \`slipway down\` stops the platform; its data stays.
`;

/**
 * Says which Node.js is needed, on every one that runs modules, and nothing of what is experimental
 * in older ones: the platform needs only the lock of a SQLite file.
 */
const program = `#!/usr/bin/env node
const [major, minor] = process.versions.node.split(".").map(Number);
const [majorMin, minorMin] = [${nodeMin.replace(".", ", ")}];
if (major < majorMin || (major === majorMin && minor < minorMin)) {
  console.error(\`Slipway needs Node.js ${nodeMin} or newer, but this is \${process.versions.node}.\`);
  process.exit(1);
}
const { emitWarning } = process;
process.emitWarning = (warning, ...about) => {
  const [type] = about;
  if ((type?.type ?? type) !== "ExperimentalWarning") emitWarning(warning, ...about);
};
await import("../dist/js/main.js");
`;

const folder = resolve(process.argv[2] ?? "dist");
const work = mkdtempSync(join(tmpdir(), "slipway-pack-"));
try {
  mkdirSync(folder, { recursive: true });
  process.stdout.write(`${join(folder, await pack(work, folder))}\n`);
} finally {
  rmSync(work, { recursive: true });
}

/** The archive's name. */
async function pack(packageDir: string, target: string): Promise<string> {
  execFileSync(process.execPath, [join(projectDir, "tools/dashboard.mjs")], { stdio: "inherit" });
  const { metafile } = await build({
    ...bundling,
    entryPoints: {
      main: join(projectDir, "cli/src/main.ts"),
      stop: join(projectDir, "tools/stop.ts"),
      backup: join(projectDir, "server/src/backup-main.ts"),
    },
    outdir: join(packageDir, "dist/js"),
    splitting: true,
    // Compiled parts that their packages do without.
    external: ["cpu-features", "*.node"],
    banner: { js: `${requireFrom("import.meta.url")}const __dirname=import.meta.dirname;` },
  });
  addFiles(packageDir, { manifest: manifest(), readme, metafile });
  mkdirSync(join(packageDir, "bin"));
  writeFileSync(join(packageDir, "bin/slipway.js"), program, { mode: 0o755 });
  for (const path of [
    "dashboard/dist/pages",
    "server/src/api/pages",
    "server/src/drivers/process/scripts",
    "server/src/store/migrations",
    "tools/bounded-log.mjs",
  ])
    copyFile(packageDir, path);
  return packFolder(packageDir, target);
}

function manifest(): object {
  const server = JSON.parse(readFileSync(join(projectDir, "server/package.json"), "utf8")) as {
    readonly optionalDependencies: Readonly<Record<string, string>>;
  };
  return {
    ...commonManifest(),
    name: "slipway",
    description: "An open, self-hosted serverless platform for GPU and CPU apps.",
    type: "module",
    bin: { slipway: "bin/slipway.js" },
    files: ["bin", "dist", "dashboard", "runtimes", "server", "tools", "THIRD-PARTY-LICENSES.txt"],
    engines: { node: `>=${nodeMin}` },
    optionalDependencies: server.optionalDependencies,
  };
}
