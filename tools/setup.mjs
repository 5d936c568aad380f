// Makes the project ready to run: installs the locked packages, among them the Node.js that everything else needs.
// `npm start`, `npm test` and `npm run check` run it first, on any Node.js from 20 on and before node_modules exists,
// so it is plain JavaScript without dependencies. When nothing is to be done it ends within milliseconds.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { delimiter, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const modules = join(root, "node_modules");
const stampFile = join(modules, ".slipway-setup");
const lockFile = join(root, ".slipway-setup.lock");
/** What comes with Node.js 20; older ones are not tried by our tests. */
const npmLeast = 10;
/** The longest that one installation may take before another one stops waiting for it. */
const installWaitMs = 15 * 60_000;
/** From 25 on Node.js needs this library; a fresh Debian does not have it. */
const nodeLibrary = "libatomic.so.1";
/** Taken where it is missing. Everything runs on both; the pinned one carries more calls with the same processor. */
const nodeInstead = "24.21.0";
/** What npm says first is the cause; pages of usage follow. */
const errorLinesMax = 12;

/** An obstacle that the user can remove; printed without a stack. */
class SetupRefused extends Error {}

/** @param {string} path */
function readJson(path) {
  return JSON.parse(readFileSync(path, "utf8"));
}

/** What decides which packages belong into node_modules: the locked packages, their wishers, this machine. */
function wantedStamp() {
  const hash = createHash("sha256").update(readFileSync(join(root, "package-lock.json")));
  const workspaces = readJson(join(root, "package.json")).workspaces;
  for (const folder of ["", ...workspaces]) {
    const { dependencies, devDependencies, optionalDependencies, allowScripts } = readJson(
      join(root, folder, "package.json"),
    );
    hash.update(JSON.stringify([folder, dependencies, devDependencies, optionalDependencies, allowScripts]));
  }
  return `${process.platform}-${process.arch} ${hash.digest("hex")}\n`;
}

function nodeWanted() {
  return readJson(join(root, "package.json")).dependencies.node;
}

function nodeFile() {
  return join(modules, ".bin", "node");
}

/** The version that node_modules/.bin/node says it has; null when it is missing or does not run. */
function nodeInstalled() {
  const { stdout, status } = spawnSync(nodeFile(), ["--version"], { encoding: "utf8", timeout: 20_000 });
  return status === 0 ? stdout.trim().replace(/^v/, "") : null;
}

/** True when the list of this machine's libraries, where there is one, does not have it for this processor. */
function lacksNodeLibrary() {
  const environment = { ...process.env, PATH: `${process.env.PATH ?? ""}${delimiter}/usr/sbin${delimiter}/sbin` };
  const { stdout, status } = spawnSync("ldconfig", ["-p"], { encoding: "utf8", env: environment, timeout: 20_000 });
  return status === 0 && !stdout.includes(`${nodeLibrary} (libc6,`);
}

/** True when the stamp of the last finished setup is the wanted one and the Node.js it was checked with is still there. */
function isReady(stamp) {
  if (!existsSync(stampFile) || readFileSync(stampFile, "utf8") !== stamp) return false;
  return existsSync(nodeFile());
}

/** True when somebody ran `npm ci` by hand: npm's own record of node_modules holds every locked package. */
function isInstalledByHand() {
  const record = join(modules, ".package-lock.json");
  if (!existsSync(record)) return false;
  const installed = readJson(record).packages;
  for (const [path, locked] of Object.entries(readJson(join(root, "package-lock.json")).packages)) {
    if (!path.startsWith("node_modules/") && !path.includes("/node_modules/")) continue;
    const here = installed[path];
    if (here === undefined ? !locked.optional : here.version !== locked.version) return false;
  }
  return nodeInstalled() === nodeWanted();
}

/** PATH without node_modules/.bin: the installation removes the Node.js in there and must not run on it. */
function outsidePath() {
  const parts = (process.env.PATH ?? "").split(delimiter);
  return parts.filter((part) => !part.replaceAll("\\", "/").includes("/node_modules/")).join(delimiter);
}

/** The environment of npm. Warnings are left out: on an older Node.js there is one for each package that needs a newer one. */
function npmEnvironment() {
  const environment = { ...process.env, PATH: outsidePath(), npm_config_loglevel: "error" };
  // What the outer `npm start` hands to its scripts would change what the inner npm does.
  for (const name of Object.keys(environment)) {
    if (/^npm_(lifecycle|package|command|node_execpath|execpath)/.test(name)) delete environment[name];
  }
  return environment;
}

function checkNpm() {
  const { stdout, status, error } = spawnSync("npm", ["--version"], { encoding: "utf8", env: npmEnvironment() });
  if (error !== undefined || status !== 0) {
    throw new SetupRefused("npm is needed but was not found. Install Node.js 20 or newer with npm, then try again.");
  }
  const version = stdout.trim();
  if (Number.parseInt(version, 10) < npmLeast) {
    throw new SetupRefused(`npm ${version} is too old; at least ${npmLeast} is needed. Run: npm install -g npm@11`);
  }
}

/** Runs npm and resolves with its exit status and what it wrote as errors. @param {string[]} parameters */
function runNpm(parameters) {
  return new Promise((resolve, reject) => {
    const child = spawn("npm", parameters, { cwd: root, env: npmEnvironment(), stdio: ["ignore", "ignore", "pipe"] });
    const forward = (signal) => child.kill(signal);
    process.on("SIGINT", forward).on("SIGTERM", forward);
    let errors = "";
    child.stderr.setEncoding("utf8").on("data", (text) => {
      errors = (errors + text).slice(-10_000);
    });
    child.on("error", reject);
    child.on("close", (status, signal) => resolve({ status, signal, errors }));
  });
}

/** What to do about a failed `npm ci`. @param {string} errors */
function adviceFor(errors) {
  if (/EUSAGE/.test(errors)) {
    return "package-lock.json does not fit the package.json files. Who changed them: see CONTRIBUTING.md, Dependencies.";
  }
  if (/ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|network/i.test(errors)) {
    return (
      "The package registry could not be reached. Setup needs it once: check the network, set HTTPS_PROXY behind a " +
      "proxy, or name a mirror with `npm config set registry <url>`, then run the same command again."
    );
  }
  if (/EACCES|EPERM|EROFS/.test(errors)) {
    return `The folder ${root} cannot be written by this user. Run as its owner, or change its owner.`;
  }
  if (/ENOSPC/.test(errors)) return "The disk is full. Setup needs about 700 MB below node_modules.";
  return "Run the same command again; what is half installed is replaced.";
}

/** Runs npm; a failure is refused with what npm said and what to do. @param {string[]} parameters */
async function npmOrRefusal(parameters) {
  const { status, signal, errors } = await runNpm(parameters);
  if (signal !== null) throw new SetupRefused(`Setup was interrupted (${signal}). Run the same command again.`);
  if (status === 0) return;
  const shown = errors.split("\n").slice(0, errorLinesMax).join("\n");
  throw new SetupRefused(`${shown.trimEnd()}\n\nSetup failed. ${adviceFor(errors)}`);
}

/** @param {string} wanted */
function checkNode(wanted) {
  const found = nodeInstalled();
  if (found === wanted) return;
  throw new SetupRefused(
    `${nodeFile()} should be Node.js ${wanted} but ${found === null ? "does not run" : `is ${found}`}. ` +
      "It comes with an install script of the package `node`: allow install scripts (npm config get ignore-scripts) and try again.",
  );
}

/**
 * Installs with the Node.js that needs less in the place of the pinned one. It must be there before install scripts of
 * packages run, since they run on it: npm drops an optional package whose script fails.
 */
async function installWithNodeInstead() {
  await npmOrRefusal(["ci", "--ignore-scripts"]);
  const name = `node-${process.platform}-${process.arch}`;
  const folder = join(modules, ".slipway-node");
  mkdirSync(folder);
  await npmOrRefusal(["install", "--prefix", folder, "--no-save", "--no-package-lock", `${name}@${nodeInstead}`]);
  const place = join(modules, "node", "bin", "node");
  mkdirSync(dirname(place), { recursive: true });
  renameSync(join(folder, "node_modules", name, "bin", "node"), place);
  rmSync(folder, { recursive: true });
  rmSync(nodeFile(), { force: true });
  symlinkSync(relative(dirname(nodeFile()), place), nodeFile());
  const scripted = Object.keys(readJson(join(root, "package.json")).allowScripts ?? {});
  const others = scripted.filter((one) => one !== "node" && existsSync(join(modules, one)));
  if (others.length > 0) await npmOrRefusal(["rebuild", ...others]);
  checkNode(nodeInstead);
  process.stderr.write(
    `Node.js ${nodeInstead} is used: ${nodeWanted()}, which is faster, needs ${nodeLibrary}, which is not installed here. ` +
      `To have it, install that (on Debian: apt-get install libatomic1), remove ${stampFile}, and start again.\n`,
  );
}

async function install(stamp) {
  checkNpm();
  const began = performance.now();
  process.stderr.write("Setting up: installing packages and Node.js …\n");
  rmSync(stampFile, { force: true });
  if (lacksNodeLibrary()) await installWithNodeInstead();
  else {
    await npmOrRefusal(["ci"]);
    checkNode(nodeWanted());
  }
  writeFileSync(stampFile, stamp);
  process.stderr.write(`Set up in ${((performance.now() - began) / 1000).toFixed(1)} s.\n`);
}

/** True when the process that wrote the lock file is gone. */
function isLockStale() {
  try {
    const pid = Number(readFileSync(lockFile, "utf8"));
    // A process that was killed between making the file and writing its id leaves it empty.
    if (pid === 0) return Date.now() - statSync(lockFile).mtimeMs > 5_000;
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return error.code === "ESRCH";
  }
}

/** Lets one process at a time install; the others wait and find everything done. */
async function takeLock() {
  const giveUpAt = Date.now() + installWaitMs;
  for (;;) {
    try {
      const file = openSync(lockFile, "wx");
      writeFileSync(file, String(process.pid));
      closeSync(file);
      return;
    } catch (error) {
      if (error.code !== "EEXIST") throw new SetupRefused(`${error.message}. ${adviceFor(error.code)}`);
    }
    if (isLockStale()) rmSync(lockFile, { force: true });
    else if (Date.now() > giveUpAt) throw new SetupRefused(`Another setup holds ${lockFile}; remove it if none runs.`);
    else await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

async function main() {
  const stamp = wantedStamp();
  if (isReady(stamp)) return;
  await takeLock();
  try {
    if (isReady(stamp)) return;
    if (isInstalledByHand()) writeFileSync(stampFile, stamp);
    else await install(stamp);
  } finally {
    rmSync(lockFile, { force: true });
  }
}

try {
  await main();
} catch (error) {
  if (!(error instanceof SetupRefused)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
