// Installs the packages of the dashboard and builds its pages into dashboard/dist/pages, from where
// the platform serves them; when nothing has changed since the last time, it ends within
// milliseconds. `npm start` runs it beside the platform, which is to serve before the pages are
// built: `--beside <pid>` gives way to other work and ends with that process. `--packages` only
// installs, for the type check. Two at once build once.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { constants, setPriority } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { withLock } from "./setup/lock.mjs";
import { checkNpm, npmOrRefusal, SetupRefused } from "./setup/npm.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const dashboard = join(root, "dashboard");
const packagesStampFile = join(dashboard, "node_modules", ".slipway-setup");
/**
 * `pages`: what is served; `stamp`: of what it was built; `problem.txt`: why it could not be, shown
 * in its place.
 */
const dist = join(dashboard, "dist");
const pages = join(dist, "pages");
const stampFile = join(dist, "stamp");
const problemFile = join(dist, "problem.txt");
/** What the pages are built of. */
const sources = [
  "dashboard/src",
  "dashboard/build",
  "dashboard/public",
  "client/src",
  "contract/src",
];
const sourceFiles = ["index.html", "package.json", "package-lock.json", "tsconfig.json"];
/** A build takes seconds. */
const buildWaitMs = 10 * 60_000;
const outputLengthMax = 4_000;

let isEnding = false;

function packagesStamp() {
  const hash = createHash("sha256");
  for (const name of ["package.json", "package-lock.json"])
    hash.update(readFileSync(join(dashboard, name)));
  return `${process.platform}-${process.arch} ${hash.digest("hex")}\n`;
}

function pagesStamp() {
  const hash = createHash("sha256");
  const listed = sources.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath ?? entry.path, entry.name)),
  );
  const paths = [...listed, ...sourceFiles.map((name) => join(dashboard, name))];
  for (const path of paths.sort((a, b) => (a < b ? -1 : 1))) {
    hash.update(path.slice(root.length)).update("\0").update(readFileSync(path)).update("\0");
  }
  return `${hash.digest("hex")}\n`;
}

function isStamped(path, stamp) {
  return existsSync(path) && readFileSync(path, "utf8") === stamp;
}

/** Whoever calls holds the lock. */
async function installPackages() {
  const stamp = packagesStamp();
  if (isStamped(packagesStampFile, stamp)) return;
  checkNpm();
  rmSync(packagesStampFile, { force: true });
  await npmOrRefusal(["ci"], dashboard);
  writeFileSync(packagesStampFile, stamp);
}

/**
 * Builds into a new folder, which takes the place of the old one when it is whole. Whoever calls
 * holds the lock.
 */
async function build(stamp) {
  for (const name of readdirSync(dist)) {
    if (/^(?:new|old)-/.test(name)) rmSync(join(dist, name), { recursive: true, force: true });
  }
  const [fresh, old] = ["new", "old"].map((name) => join(dist, `${name}-${process.pid}`));
  await runVite(fresh);
  rmSync(stampFile, { force: true });
  if (existsSync(pages)) renameSync(pages, old);
  renameSync(fresh, pages);
  writeFileSync(stampFile, stamp);
  rmSync(old, { recursive: true, force: true });
}

/** @param {string} folder */
function runVite(folder) {
  const program = join(dashboard, "node_modules", "vite", "bin", "vite.js");
  const child = spawn(
    join(root, "node_modules", ".bin", "node"),
    [
      program,
      "build",
      "--config",
      "build/pages-build.ts",
      "--outDir",
      folder,
      "--logLevel",
      "warn",
    ],
    {
      cwd: dashboard,
      stdio: ["ignore", "pipe", "pipe"],
      timeout: buildWaitMs,
    },
  );
  process.on("SIGINT", () => child.kill()).on("SIGTERM", () => child.kill());
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text) => {
      output = (output + text).slice(-outputLengthMax);
    });
  }
  return new Promise((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (status) => {
      if (status === 0) resolve(undefined);
      else
        reject(
          new SetupRefused(
            `${output.trimEnd()}\n\nThe pages could not be built with the packages that are installed.`,
          ),
        );
    });
  });
}

/**
 * Ends with the process, so that nothing is left of a platform that was stopped. @param {number}
 * pid
 */
function endWith(pid) {
  setPriority(process.pid, constants.priority.PRIORITY_LOW);
  const timer = setInterval(() => {
    try {
      process.kill(pid, 0);
    } catch {
      process.kill(process.pid, "SIGTERM");
    }
  }, 500);
  timer.unref();
}

async function main([mode, pid]) {
  if (mode === "--packages") {
    if (isStamped(packagesStampFile, packagesStamp())) return;
  } else if (isStamped(stampFile, pagesStamp())) return;
  if (mode === "--beside") endWith(Number(pid));
  mkdirSync(dist, { recursive: true });
  await withLock(join(dist, "lock"), async () => {
    const began = performance.now();
    await installPackages();
    if (mode === "--packages") return;
    const stamp = pagesStamp();
    if (isStamped(stampFile, stamp)) return;
    await build(stamp);
    rmSync(problemFile, { force: true });
    process.stderr.write(
      `The dashboard was built in ${((performance.now() - began) / 1000).toFixed(1)} s.\n`,
    );
  });
}

for (const signal of ["SIGINT", "SIGTERM"]) {
  process.on(signal, () => {
    isEnding = true;
  });
}
try {
  await main(process.argv.slice(2));
} catch (error) {
  if (!(error instanceof SetupRefused)) throw error;
  // What was begun is begun anew next time.
  if (isEnding) process.exit(1);
  if (existsSync(dist)) writeFileSync(problemFile, `${error.message}\n`);
  process.stderr.write(
    `The dashboard could not be built:\n${error.message}\nnpm run dashboard tries again.\n`,
  );
  process.exitCode = 1;
}
