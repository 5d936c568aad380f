// Creates the files of the embedded PostgreSQL once, in a folder with another name that is renamed
// when complete, so that an interrupted start leaves nothing that looks finished.
import { randomBytes } from "node:crypto";
import {
  chownSync,
  existsSync,
  lchownSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
} from "node:fs";
import { chmod, mkdir, mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { CannotStart } from "#lib/cannot-start.ts";
import type { Clock } from "#lib/clock.ts";
import { Secret } from "#lib/secret.ts";
import { renameSafely, writeFileSafely } from "#lib/write-file.ts";
import { collect, type PostgresProgram } from "./postgres-program.ts";

/** The superuser that the platform connects as. */
export const embeddedUser = "slipway";

/** The paths below the embedded server's folder. */
export function clusterPaths(folder: string) {
  return {
    dataFolder: join(folder, "data"),
    /** The superuser's password. */
    passwordFile: join(folder, "password"),
    socketFolder: join(folder, "run"),
    logFile: join(folder, "server.log"),
  } as const;
}

const unfinishedPrefix = "data.new-";

/** Initialization takes about half a second; a slow disk may take a hundred times as long. */
const initWaitMs = 120_000;
/** How long a left-over initdb may keep a folder from being removed. */
const removeWaitMs = 10_000;

/**
 * Creates the cluster if it is missing; returns its password. Throws `CannotStart` when the
 * existing one cannot be used.
 */
export async function prepareCluster(
  folder: string,
  options: { program: PostgresProgram; durable: boolean; clock: Clock },
): Promise<Secret> {
  const { program } = options;
  const paths = clusterPaths(folder);
  await removeUnfinished(folder, options.clock);
  if (existsSync(paths.dataFolder)) {
    checkVersion(paths.dataFolder, program.major);
    adoptFiles(paths.dataFolder, program.owner);
    return readPassword(paths.passwordFile);
  }
  const password = new Secret(randomBytes(24).toString("base64url"));
  writeFileSafely(paths.passwordFile, `${password.reveal()}\n`);
  const unfinished = await mkdtemp(join(folder, unfinishedPrefix));
  await initialise(unfinished, { ...options, password });
  renameSafely(unfinished, paths.dataFolder);
  return password;
}

/**
 * Removes the folders of interrupted starts. The initdb of a killed platform may still be running
 * in one, which can make a removal incomplete.
 */
async function removeUnfinished(folder: string, clock: Clock): Promise<void> {
  const deadline = clock.monotonicMs() + removeWaitMs;
  for (;;) {
    const unfinished = readdirSync(folder).filter((name) => name.startsWith(unfinishedPrefix));
    if (unfinished.length === 0) return;
    for (const name of unfinished)
      rmSync(join(folder, name), { recursive: true, force: true, maxRetries: 3 });
    if (clock.monotonicMs() > deadline) {
      throw new CannotStart(
        `${join(folder, String(unfinished[0]))} is in the way and cannot be removed; delete it manually.`,
      );
    }
    await clock.sleep(10);
  }
}

/**
 * Runs initdb. The builtin locale C.UTF-8 sorts by code point without locale files, so every
 * machine sorts alike. The password goes through its own file, because initdb may run as another
 * user.
 */
async function initialise(
  target: string,
  options: { program: PostgresProgram; durable: boolean; password: Secret },
): Promise<void> {
  const { program } = options;
  chownSync(target, program.owner.uid, program.owner.gid);
  const passwordFile = `${target}.password`;
  writeFileSafely(passwordFile, `${options.password.reveal()}\n`);
  chownSync(passwordFile, program.owner.uid, program.owner.gid);
  try {
    const access = [
      "-D",
      target,
      "-U",
      embeddedUser,
      "--auth=scram-sha-256",
      `--pwfile=${passwordFile}`,
    ];
    const encoding = [
      "--encoding=UTF8",
      "--locale-provider=builtin",
      "--builtin-locale=C.UTF-8",
      "--locale=C",
    ];
    const parameters = [
      ...access,
      ...encoding,
      "--no-instructions",
      ...(options.durable ? [] : ["--no-sync"]),
    ];
    const child = program.run("initdb", parameters, {
      cwd: "/",
      stdio: ["ignore", "pipe", "pipe"],
      timeout: initWaitMs,
      detached: true,
    });
    const { code, output } = await collect(child);
    if (code !== 0) {
      throw new CannotStart(
        `The embedded database could not be created in ${target}: ${output.slice(-1000).trim()}`,
      );
    }
  } finally {
    rmSync(passwordFile, { force: true });
  }
}

function checkVersion(dataFolder: string, major: number): void {
  let version: string;
  try {
    version = readFileSync(join(dataFolder, "PG_VERSION"), "utf8").trim();
  } catch (error) {
    throw new CannotStart(
      `${dataFolder} contains no PostgreSQL database; move it away to start with an empty one.`,
      {
        cause: error,
      },
    );
  }
  if (version === String(major)) return;
  throw new CannotStart(
    `${dataFolder} was created by PostgreSQL ${version}, but this version of the platform runs ${major}: start the version that created it, make a backup (slipway backup), and restore it with this version.`,
  );
}

/** The superuser's password. Throws `CannotStart` when it cannot be read. */
export function readPassword(passwordFile: string): Secret {
  try {
    return new Secret(readFileSync(passwordFile, "utf8").trim());
  } catch (error) {
    throw new CannotStart(`The embedded database's password cannot be read from ${passwordFile}.`, {
      cause: error,
    });
  }
}

/**
 * PostgreSQL insists on owning its files, and the user that it runs as can change between starts
 * (see postgres-program.ts).
 */
function adoptFiles(path: string, owner: PostgresProgram["owner"]): void {
  if (statSync(path).uid === owner.uid) return;
  // The folder itself comes last: if this is interrupted, the next start begins again.
  for (const name of readdirSync(path, { recursive: true, encoding: "utf8" })) {
    lchownSync(join(path, name), owner.uid, owner.gid);
  }
  chownSync(path, owner.uid, owner.gid);
}

/** Creates the private folder of the embedded server. */
export async function makeClusterFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await chmod(folder, 0o700);
}
