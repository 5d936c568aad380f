// Runs npm for setup and for the dashboard's packages, in an environment in which it behaves the
// same from everywhere. Plain JavaScript without dependencies, because it runs on any Node.js from
// 20 on and before node_modules exists.
import { spawn, spawnSync } from "node:child_process";
import { delimiter } from "node:path";

/** Shipped with Node.js 20; our tests do not cover older versions. */
const npmLeast = 10;
/** The first lines of npm's output have the cause; pages of usage follow. */
const errorLinesMax = 12;

/** A problem that the user can fix; printed without a stack. */
export class SetupRefused extends Error {}

/**
 * PATH without node_modules/.bin: the installation deletes the Node.js there and must not run on
 * it.
 */
function outsidePath() {
  const parts = (process.env.PATH ?? "").split(delimiter);
  return parts
    .filter((part) => !part.replaceAll("\\", "/").includes("/node_modules/"))
    .join(delimiter);
}

/**
 * The environment of npm. Warnings are off: an older Node.js gets one for each package that needs a
 * newer one.
 */
function npmEnvironment() {
  const environment = { ...process.env, PATH: outsidePath(), npm_config_loglevel: "error" };
  // Variables that the outer `npm start` sets for its scripts would change the behaviour of the
  // inner npm.
  for (const name of Object.keys(environment)) {
    if (/^npm_(lifecycle|package|command|node_execpath|execpath)/.test(name))
      delete environment[name];
  }
  return environment;
}

/** Throws SetupRefused when npm is missing or too old. */
export function checkNpm() {
  const { stdout, status, error } = spawnSync("npm", ["--version"], {
    encoding: "utf8",
    env: npmEnvironment(),
  });
  if (error !== undefined || status !== 0) {
    throw new SetupRefused(
      "npm is needed but was not found. Install Node.js 20 or newer with npm, then try again.",
    );
  }
  const version = stdout.trim();
  if (Number.parseInt(version, 10) < npmLeast) {
    throw new SetupRefused(
      `npm ${version} is too old; at least ${npmLeast} is needed. Run: npm install -g npm@11`,
    );
  }
}

/**
 * Runs npm and resolves with its exit status and its standard error. @param {string[]} parameters
 * @param {string} folder
 */
function runNpm(parameters, folder) {
  return new Promise((resolve, reject) => {
    const child = spawn("npm", parameters, {
      cwd: folder,
      env: npmEnvironment(),
      stdio: ["ignore", "ignore", "pipe"],
    });
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

/**
 * Suggests a fix for a failed `npm ci`, or for a folder that cannot be written. @param {string}
 * errors @param {string} folder
 */
export function adviceFor(errors, folder) {
  if (/EUSAGE/.test(errors)) {
    return "package-lock.json does not fit the package.json files. Who changed them: see CONTRIBUTING.md, Dependencies.";
  }
  if (/EINTEGRITY/.test(errors)) {
    return (
      "A package is not the one that package-lock.json names: its hash is another one. Do not use what was downloaded; " +
      "check the registry or mirror that npm is set to, then run the same command again."
    );
  }
  if (
    /ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|network/i.test(
      errors,
    )
  ) {
    return (
      "The package registry could not be reached. Setup needs it once: check the network, set HTTPS_PROXY behind a " +
      "proxy, or name a mirror with `npm config set registry <url>`, then run the same command again."
    );
  }
  if (/EACCES|EPERM|EROFS/.test(errors)) {
    return `The folder ${folder} cannot be written by this user. Run as its owner, or change its owner.`;
  }
  if (/ENOSPC/.test(errors)) return "The disk is full. Setup needs about 850 MB.";
  return "Run the same command again; what is half installed is replaced.";
}

/**
 * Runs npm in the folder; a failure is thrown with npm's message and a suggestion. @param
 * {string[]} parameters @param {string} folder
 */
export async function npmOrRefusal(parameters, folder) {
  const { status, signal, errors } = await runNpm(parameters, folder);
  if (signal !== null)
    throw new SetupRefused(`Setup was interrupted (${signal}). Run the same command again.`);
  if (status === 0) return;
  const shown = errors.split("\n").slice(0, errorLinesMax).join("\n");
  throw new SetupRefused(`${shown.trimEnd()}\n\nSetup failed. ${adviceFor(errors, folder)}`);
}
