// Runs an untrusted program (an app, the commands of its build) in its own namespaces. It sees the system read-only,
// the folders of its `SandboxView` and its own processes, and runs as a user without privileges. Uses only tools of
// every Debian: unshare, mount, pivot_root, chroot and setpriv of util-linux and coreutils, and sh.
import type { ProjectId } from "#lib/ids.ts";
import type { Network, OwnNetwork } from "./network.ts";
import { mountTable, viewPath, type SandboxContext, type SandboxView } from "./sandbox-view.ts";

/** The sandbox support of this machine; made by `detectSandbox`. */
export type Sandbox =
  | Namespaces
  /** Programs run unchanged, as the platform's own user. `reason` says why. */
  | { readonly kind: "none"; readonly reason: string };

export type Namespaces = SandboxContext & {
  readonly kind: "namespaces";
  readonly hasOverlays: boolean;
  readonly network: Network;
};

export type SandboxedRun = {
  readonly command: readonly [string, ...string[]];
  /** The working directory, as the program sees it. */
  readonly cwd: string;
  /** The program's whole environment. It does not affect the tools that set up the sandbox (think of LD_PRELOAD). */
  readonly environment: Readonly<Record<string, string>>;
  readonly view: SandboxView;
  /** Shell lines that connect the run's own network (see `network.ts`); null: it shares the machine's. */
  readonly network: string | null;
  /** A descriptor of the network that the spawned process inherits (see `network-pool.ts`); without it a new one is made. */
  readonly networkDescriptor?: number | undefined;
  /** The program's user id when the platform is root (`projectUser`); otherwise without effect. */
  readonly user: number;
  /** The platform's shell lines around the program, run in the spawned process's folder. */
  readonly around?: { readonly before: string; readonly ready: string; readonly after: string };
};

/** What to spawn instead. No shell parses `args` again. */
export type SandboxedCommand = {
  readonly file: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
};

/** The exit code when the sandbox of a program could not be set up; standard error has the reason. */
export const sandboxFailedCode = 125;

/** The environment of the tools that set up the sandbox. */
export const toolsEnvironment = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" };
/** Names reserved by shells. */
const shellNames = /^(PPID|UID|EUID|GROUPS|OPTIND|LINENO|SHELLOPTS|BASHOPTS|BASH_VERSINFO|_)$/;
/** Names that a shell can set. */
const shellForm = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** Allowed names of variables and secrets. */
const variableForm = /^[A-Za-z0-9_.-]+$/;
/**
 * Maximum number of processes and threads, per project user, or per sandbox where the platform is not root. Stops a fork bomb.
 */
const processesMax = 16_384;
const openFilesMax = 65_536;

/**
 * The user id of a project's programs when the platform is root; it must own files that a program should change.
 * Nothing else assigns ids from 0x70000000 on: useradd, containers and systemd stay below.
 */
export function projectUser(projectId: ProjectId): number {
  return 0x70000000 + (Number.parseInt(projectId.slice(-8), 16) & 0x0fffffff);
}

/** Null where programs share the machine's network. */
export function ownNetwork(sandbox: Sandbox): OwnNetwork | null {
  return sandbox.kind === "namespaces" && sandbox.network.kind === "own" ? sandbox.network : null;
}

/** Why a program cannot get a variable of this name, as the end of a sentence; null when it can. */
export function variableRefusal(name: string): string | null {
  return variableForm.test(name) ? null : 'names of variables have letters, digits, "_", "." and "-"';
}

/** Returns the command that runs `run.command` in the sandbox. Pure; omits variables that `variableRefusal` refuses. */
export function sandboxed(sandbox: Sandbox, run: SandboxedRun): SandboxedCommand {
  if (sandbox.kind === "none" && run.around === undefined) {
    const [file, ...args] = run.command;
    return { file, args, environment: run.environment };
  }
  const names = Object.keys(run.environment).filter((name) => variableRefusal(name) === null);
  const carried = Object.fromEntries(names.map((name, index) => [`carried_${index}`, run.environment[name] ?? ""]));
  const environment = { ...toolsEnvironment, ...carried };
  const inside = ["sh", "-c", insideScript(names), "sh", run.cwd, ...run.command];
  const before = `${run.around?.before ?? ""}\n`;
  // Runs the program in the foreground: it keeps the default of every signal, and the shell outlives it to report its exit.
  const start = `${run.around?.ready ?? ""}\n"$@" ${run.around === undefined ? "" : "2>&5 4>&- 5>&- 6>&- 7>&- 8>&-"}\n${run.around?.after ?? ""}\n`;
  if (sandbox.kind === "none") {
    return { file: "/bin/sh", args: ["-c", before + limits + start, "sh", ...inside], environment };
  }
  const { networkDescriptor: prepared } = run;
  const closing = prepared === undefined ? "" : `exec ${prepared}>&-\n`;
  const script = `table=$1\nroot=$2\nshift 2\n${closing}${before}${run.network ?? ""}${processLimit}${limits}${mountAll}${start}`;
  const drop = ["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"];
  if (!sandbox.isUserOwned) drop.push(`--reuid=${run.user}`, `--regid=${run.user}`, "--clear-groups");
  const root = run.view.stagingDir;
  const shell = ["sh", "-c", script, "sh", mountTable(run.view, sandbox), root, "chroot", viewPath, ...drop, ...inside];
  const hasNewNetwork = run.network !== null && prepared === undefined;
  const args = [...namespaceOptions(sandbox.isUserOwned, hasNewNetwork), ...shell];
  if (prepared === undefined) return { file: "unshare", args, environment };
  return { file: "nsenter", args: [`--net=/proc/self/fd/${prepared}`, "unshare", ...args], environment };
}

/** `--kill-child`: nothing survives when the process that we know is killed. The shell is the namespace's first process. */
function namespaceOptions(isUserOwned: boolean, hasNetwork: boolean): string[] {
  const namespaces = ["--mount", "--pid", "--ipc", ...(hasNetwork ? ["--net"] : []), "--fork", "--kill-child"];
  return isUserOwned ? ["--user", "--map-root-user", ...namespaces] : namespaces;
}

/**
 * `mount` reads tables only from files; this one is below the mount that it makes, so the program never sees it. Then
 * the machine's own root leaves the namespace. `chroot` still hides the rest: the kernel also refuses namespaces to
 * processes in one, which pivoting alone would allow.
 */
const mountAll = `{ printf '%s' "$table" >"$root/table" && mount -a -T "$root/table" && cd "$root" &&
pivot_root . . && umount -c -l .; } || exit ${sandboxFailedCode}\n`;
/** No core dumps; a bounded number of open files, as many as allowed. */
const limits = `ulimit -c 0\nulimit -n ${openFilesMax} 2>/dev/null || ulimit -n "$(ulimit -Hn)"\n`;
/** Shells use different letters; a lower limit of the machine remains. */
const processLimit = `{ ulimit -p ${processesMax} || ulimit -u ${processesMax} || :; } 2>/dev/null\n`;

/** Runs without privileges: restores the program's variables, which were passed under other names, and then executes it. */
function insideScript(names: readonly string[]): string {
  const carried = names.map((name, index) => ({ name, carrier: `carried_${index}` }));
  const isPlain = ({ name }: { name: string }): boolean => shellForm.test(name) && !shellNames.test(name);
  const exports = carried.filter(isPlain).map(({ name, carrier }) => `export ${name}="$${carrier}"; unset ${carrier}`);
  const unset = names.includes("LC_ALL") ? "unset OLDPWD" : "unset OLDPWD LC_ALL";
  return ['cd "$1" || exit 126', "shift", unset, ...exports, become(carried.filter((one) => !isPlain(one)))].join("\n");
}

/**
 * A shell cannot set variables with these names; `env` can. It takes the values from its environment, so that process
 * lists do not show them.
 */
function become(odd: readonly { readonly name: string; readonly carrier: string }[]): string {
  if (odd.length === 0) return 'exec "$@"';
  const words = [
    ...odd.map(({ carrier }) => `-u ${carrier}`),
    ...odd.map(({ name, carrier }) => `${name}=\${${carrier}}`),
  ];
  return `exec /usr/bin/env -S '${words.join(" ")}' "$@"`;
}
