// The checks of `slipway doctor`: what a platform on this machine needs, and whether the one that
// commands use answers. Each looks once, leaves nothing changed, and has a deadline.
import { spawnSync } from "node:child_process";
import { statfsSync, statSync } from "node:fs";
import { connect } from "node:net";
import { dirname, resolve } from "node:path";
import { boundedAnswer } from "./bounded-answer.ts";
import { backupsCheck } from "./doctor-backups.ts";
import { databaseCheck } from "./doctor-database.ts";
import { dockerCheck, type Finding } from "./doctor-docker.ts";
import type { Machine } from "./machine.ts";
import { plain } from "./plain-text.ts";
import { publicUrlCheck } from "./public-url.ts";
import { readSignIns } from "./sign-ins.ts";

/** One line of the report. */
export type Check = {
  readonly name: string;
  readonly run: (machine: Machine) => Finding | Promise<Finding>;
};

const commandMs = 10_000;
const answerMs = 5_000;
const pythonMinors = [8, 9, 10, 11, 12, 13, 14];
/** The platform keeps 1 GB of its disk free for itself. */
const diskMin = { fault: 2e9, warning: 10e9 };
/** Tokens are valid for hours, but must not seem to be from the future. */
const skewSecondsMax = 30;
const portByDefault = "7070";

/** All checks, in the order of the report. */
export const checks: readonly Check[] = [
  {
    name: "command line",
    run: ({ version, system }) =>
      ok(`slipway ${version}, Node.js ${process.versions.node}, ${system}`),
  },
  { name: "git", run: gitCheck },
  { name: "docker", run: dockerCheck },
  { name: "python", run: pythonCheck },
  { name: "user namespaces", run: namespaceCheck },
  { name: "port", run: portCheck },
  { name: "disk", run: diskCheck },
  { name: "platform", run: platformCheck },
  { name: "public URL", run: publicUrlCheck },
  { name: "database", run: databaseCheck },
  { name: "backups", run: backupsCheck },
];

function gitCheck(): Finding {
  const version = outputOf("git", ["--version"]);
  if (version !== null) return ok(version);
  return fault(
    "git is not installed",
    "Install it (on Debian: apt-get install git); the platform fetches apps with it.",
  );
}

function pythonCheck(): Finding {
  const found = pythonMinors.flatMap((minor) => {
    const name = `python3.${minor}`;
    const isThere = outputOf(name, ["-c", "print(1)"]) === "1";
    return isThere
      ? [{ name, hasVenv: outputOf(name, ["-c", "import venv, ensurepip; print(1)"]) === "1" }]
      : [];
  });
  const names = found.map(({ name }) => name.replace("python", "")).join(", ");
  const lacking = found.filter(({ hasVenv }) => !hasVenv).map(({ name }) => name);
  if (found.length === 0) {
    const todo =
      "Install one (on Debian: apt-get install python3 python3-venv); only apps in containers do without.";
    return warning("no Python from 3.8 to 3.14 is in the PATH", todo);
  }
  if (lacking.length === 0) return ok(`Python ${names}`);
  const which = lacking.map((name) => `${name}-venv`).join(" ");
  return warning(
    `Python ${names}; without venv: ${lacking.join(", ")}`,
    `On Debian: apt-get install ${which}`,
  );
}

function namespaceCheck(): Finding {
  if (process.platform !== "linux")
    return warning("not on Linux: apps are not isolated from each other", isolation);
  const words = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "true"];
  if (outputOf("unshare", words) !== null)
    return ok("apps can be isolated from each other and from the platform's files");
  return warning("not available: apps that run as processes see the machine's files", isolation);
}

const isolation = "See docs/guides/isolation.md for what this means and how to allow them.";

const portMax = 65_535;

async function portCheck({ environment }: Machine): Promise<Finding> {
  const port = environment["SLIPWAY_PORT"] || portByDefault;
  if (port === "0") return ok("any free one (SLIPWAY_PORT=0)");
  if (!/^[0-9]{1,5}$/.test(port) || Number(port) > portMax)
    return fault(
      `SLIPWAY_PORT is ${JSON.stringify(port)}, but must be a whole number from 0 to ${portMax}`,
      "Set SLIPWAY_PORT to such a number, or leave it out.",
    );
  if (!(await isTaken(Number(port)))) return ok(`${port} is free for a platform`);
  const hasPlatform = (await platformAt(`http://127.0.0.1:${port}`)) !== null;
  if (hasPlatform) return ok(`${port}: a platform answers there`);
  return fault(
    `${port} is taken by another program`,
    `Choose another one: SLIPWAY_PORT=${Number(port) + 1} slipway up`,
  );
}

function diskCheck({ environment }: Machine): Finding {
  const folder = existingAbove(resolve(environment["SLIPWAY_DATA_DIR"] || "."));
  const { bavail, bsize } = statfsSync(folder);
  const free = bavail * bsize;
  const about = `${(free / 1e9).toFixed(1)} GB free at ${folder}`;
  const todo =
    "Free some, or set SLIPWAY_DATA_DIR to a folder on another disk; packages and builds need room.";
  if (free < diskMin.fault) return fault(about, todo);
  return free < diskMin.warning ? warning(about, todo) : ok(about);
}

async function platformCheck(machine: Machine): Promise<Finding> {
  const url = machine.environment["SLIPWAY_URL"] || readSignIns(machine).current;
  if (url === null)
    return warning(
      "you are not signed in anywhere",
      "slipway up, or slipway login --url <its URL>",
    );
  const answer = await platformAt(url);
  if (answer === null)
    return fault(`${url} does not answer`, "If it should run on this machine: slipway up");
  const { skewSeconds } = answer;
  const about = `${url} answers`;
  if (Math.abs(skewSeconds) > skewSecondsMax) {
    const which = `this machine's clock is ${Math.abs(skewSeconds)} s ${skewSeconds > 0 ? "ahead of" : "behind"} it`;
    return fault(
      `${about}; ${which}`,
      "Set the clocks, for example with NTP: tokens may seem to be not yet valid.",
    );
  }
  return ok(`${about}; the clocks agree`);
}

/** Null: nothing that is a platform. */
async function platformAt(url: string): Promise<{ readonly skewSeconds: number } | null> {
  try {
    const response = await fetch(`${url}/openapi.json`, {
      signal: AbortSignal.timeout(answerMs),
      redirect: "error",
    });
    const { info } = (await boundedAnswer(response).json()) as { info?: { title?: unknown } };
    if (!response.ok || !String(info?.title).includes("Slipway")) return null;
    const theirsMs = Date.parse(response.headers.get("date") ?? "");
    const skewSeconds = Number.isNaN(theirsMs) ? 0 : Math.round((Date.now() - theirsMs) / 1000);
    return { skewSeconds };
  } catch {
    // Refused, silent, or no JSON: no platform.
    return null;
  }
}

async function isTaken(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", timeout: answerMs });
    const end = (answer: boolean) => (): void => (socket.destroy(), resolve(answer));
    socket.on("connect", end(true)).on("timeout", end(true)).on("error", end(false));
  });
}

function existingAbove(path: string): string {
  return statSync(path, { throwIfNoEntry: false }) === undefined
    ? existingAbove(dirname(path))
    : path;
}

/** What it prints; null when it is missing, fails, or takes too long. */
function outputOf(file: string, words: readonly string[]): string | null {
  const { status, stdout } = spawnSync(file, words, {
    encoding: "utf8",
    timeout: commandMs,
    stdio: ["ignore", "pipe", "ignore"],
  });
  return status === 0 ? plain(stdout.trim()) : null;
}

function ok(about: string): Finding {
  return { state: "ok", about };
}

function warning(about: string, todo: string): Finding {
  return { state: "warning", about, todo };
}

function fault(about: string, todo: string): Finding {
  return { state: "fault", about, todo };
}
