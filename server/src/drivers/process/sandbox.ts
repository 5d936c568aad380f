// Runs a program that is not trusted (an app, the commands of its build) in namespaces of its own: it sees the system
// read-only, the folders of its `SandboxView`, its own processes and nothing else, as a user without any right.
// Only what every Debian has is used: unshare, mount, pivot_root, chroot and setpriv of util-linux and coreutils, and sh.
import type { ProjectId } from "#lib/ids.ts";
import type { Network, OwnNetwork } from "./network.ts";
import { mountTable, viewPath, type SandboxContext, type SandboxView } from "./sandbox-view.ts";

/** What this machine lets us do; made by `detectSandbox`. */
export type Sandbox =
  | Namespaces
  /** Programs run as they are, as the platform's own user. `reason` says why. */
  | { readonly kind: "none"; readonly reason: string };

export type Namespaces = SandboxContext & {
  readonly kind: "namespaces";
  readonly hasOverlays: boolean;
  readonly network: Network;
};

export type SandboxedRun = {
  readonly command: readonly [string, ...string[]];
  /** Where it starts, as the program sees it. */
  readonly cwd: string;
  /** The program's whole environment. It cannot reach the tools that set the sandbox up (think of LD_PRELOAD). */
  readonly environment: Readonly<Record<string, string>>;
  readonly view: SandboxView;
  /** Shell lines that connect a network of the run's own (see `network.ts`); null: it shares the machine's. */
  readonly network: string | null;
  /** Who the program runs as when the platform is root: `projectUser`; without effect otherwise. */
  readonly user: number;
  /** Shell lines of the platform around the program, run in the spawned process's folder. */
  readonly around?: { readonly before: string; readonly ready: string; readonly after: string };
};

/** What to spawn instead: no shell reads `args` again. */
export type SandboxedCommand = {
  readonly file: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
};

/** The exit code of a program whose sandbox could not be set up; what went wrong is on standard error. */
export const sandboxFailedCode = 125;

/** The environment of the tools that set the sandbox up. */
export const toolsEnvironment = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" };
/** Names that a shell owns. */
const shellNames = /^(PPID|UID|EUID|GROUPS|OPTIND|LINENO|SHELLOPTS|BASHOPTS|BASH_VERSINFO|_)$/;
/** Names that a shell can set. */
const shellForm = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** Names that secrets may have. */
const variableForm = /^[A-Za-z0-9_.-]+$/;
/** Processes and threads of one project's user together, or of one sandbox where the platform is not root, so that a fork bomb ends there. */
const processesMax = 16_384;
const openFilesMax = 65_536;

/**
 * The user id that a project's programs have when the platform is root; files that a program shall change must belong
 * to it. From 0x70000000 on nobody else takes ids: useradd, containers and systemd stay below.
 */
export function projectUser(projectId: ProjectId): number {
  return 0x70000000 + (Number.parseInt(projectId.slice(-8), 16) & 0x0fffffff);
}

/** Null where programs share the machine's network. */
export function ownNetwork(sandbox: Sandbox): OwnNetwork | null {
  return sandbox.kind === "namespaces" && sandbox.network.kind === "own" ? sandbox.network : null;
}

/** Why a variable of this name cannot be given to a program, as the end of a sentence; null when it can. */
export function variableRefusal(name: string): string | null {
  return variableForm.test(name) ? null : 'names of variables have letters, digits, "_", "." and "-"';
}

/** The command that runs `run.command` in the sandbox. Pure; variables that `variableRefusal` refuses are left out. */
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
  // The program in the foreground: it keeps the default of every signal, and the shell outlives it to say how it ended.
  const start = `${run.around?.ready ?? ""}\n"$@" ${run.around === undefined ? "" : "2>&5 4>&- 5>&- 6>&- 7>&- 8>&-"}\n${run.around?.after ?? ""}\n`;
  if (sandbox.kind === "none") {
    return { file: "/bin/sh", args: ["-c", before + limits + start, "sh", ...inside], environment };
  }
  const script = `table=$1\nroot=$2\nshift 2\n${before}${run.network ?? ""}${processLimit}${limits}${mountAll}${start}`;
  const drop = ["setpriv", "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"];
  if (!sandbox.isUserOwned) drop.push(`--reuid=${run.user}`, `--regid=${run.user}`, "--clear-groups");
  const root = run.view.stagingDir;
  const shell = ["sh", "-c", script, "sh", mountTable(run.view, sandbox), root, "chroot", viewPath, ...drop, ...inside];
  return {
    file: "unshare",
    args: [...namespaceOptions(sandbox.isUserOwned, run.network !== null), ...shell],
    environment,
  };
}

/** `--kill-child`: nothing lives on when the process that we know is killed. The shell is the namespace's first process. */
function namespaceOptions(isUserOwned: boolean, hasNetwork: boolean): string[] {
  const namespaces = ["--mount", "--pid", "--ipc", ...(hasNetwork ? ["--net"] : []), "--fork", "--kill-child"];
  return isUserOwned ? ["--user", "--map-root-user", ...namespaces] : namespaces;
}

/**
 * `mount` reads tables from files only; this one lies below the mount that it makes, so the program never sees it. The
 * machine's own root is then taken out of the namespace. `chroot` goes on hiding what is left: the kernel also refuses
 * namespaces to whoever lives in one, which pivoting alone would allow.
 */
const mountAll = `{ printf '%s' "$table" >"$root/table" && mount -a -T "$root/table" && mkdir "$root/old" && cd "$root" &&
pivot_root . old && umount -l /old && rmdir /old; } || exit ${sandboxFailedCode}\n`;
/** No core dumps; as many open files as allowed, but not without end. */
const limits = `ulimit -c 0\nulimit -n ${openFilesMax} 2>/dev/null || ulimit -n "$(ulimit -Hn)"\n`;
/** Shells differ in the letter; a lower limit of the machine stays. */
const processLimit = `{ ulimit -p ${processesMax} || ulimit -u ${processesMax} || :; } 2>/dev/null\n`;

/** Runs without rights already: gives the program its variables, which were carried under other names, and becomes it. */
function insideScript(names: readonly string[]): string {
  const carried = names.map((name, index) => ({ name, carrier: `carried_${index}` }));
  const isPlain = ({ name }: { name: string }): boolean => shellForm.test(name) && !shellNames.test(name);
  const exports = carried.filter(isPlain).map(({ name, carrier }) => `export ${name}="$${carrier}"; unset ${carrier}`);
  const unset = names.includes("LC_ALL") ? "unset OLDPWD" : "unset OLDPWD LC_ALL";
  return ['cd "$1" || exit 126', "shift", unset, ...exports, become(carried.filter((one) => !isPlain(one)))].join("\n");
}

/** A shell cannot set variables of these names; `env` can. It takes the values from its environment, so no process list shows them. */
function become(odd: readonly { readonly name: string; readonly carrier: string }[]): string {
  if (odd.length === 0) return 'exec "$@"';
  const words = [
    ...odd.map(({ carrier }) => `-u ${carrier}`),
    ...odd.map(({ name, carrier }) => `${name}=\${${carrier}}`),
  ];
  return `exec /usr/bin/env -S '${words.join(" ")}' "$@"`;
}
