// Runs an untrusted program (an app, the commands of its build) in its own namespaces. The program
// sees the system read-only, the folders of its `SandboxView` and its own processes, and runs as a
// user without privileges. Uses only tools of every Debian: unshare, mount, pivot_root, chroot and
// setpriv of util-linux and coreutils, and sh.
import { statSync } from "node:fs";
import type { Egress } from "#drivers/egress.ts";
import { toolsEnvironment } from "#drivers/short-command.ts";
import { shellQuoted } from "#lib/shell-quoted.ts";
import { accountFiles } from "./user-account.ts";
import type { Network, OwnNetwork } from "./network.ts";
import * as views from "./sandbox-view.ts";

/** The sandbox support of this machine; made by `detectSandbox`. */
export type Sandbox =
  | Namespaces
  /** Programs run unchanged, as the platform's own user. `reason` says why. */
  | { readonly kind: "none"; readonly reason: string };

export type Namespaces = views.SandboxContext & {
  readonly kind: "namespaces";
  readonly hasOverlays: boolean;
  readonly network: Network;
};

export type SandboxedRun = {
  readonly command: readonly [string, ...string[]];
  /** The working directory, as the program sees it. */
  readonly cwd: string;
  /**
   * The program's whole environment. It does not affect the tools that set up the sandbox (think of
   * LD_PRELOAD).
   */
  readonly environment: Readonly<Record<string, string>>;
  readonly view: Omit<views.SandboxView, "account">;
  /** The program's home, as it sees it. */
  readonly home: string;
  /** The program's user id when the platform is root (`projectUser`); otherwise without effect. */
  readonly user: number;
};

/** The platform's shell lines around a program. */
export type Around = {
  /** Lines that run before everything else. */
  readonly before: string;
  /**
   * The name of the file by which further programs enter the sandbox later (see `enteringSandbox`).
   */
  readonly entry: string;
  /** Lines that run just before the program starts. */
  readonly ready: string;
  /** Words before the program, such as `nice`. */
  readonly words: string;
  /** Absent: the words that take the program's privileges (see `dropWords`). */
  readonly drop?: string;
  /** Redirections of the program's descriptors. */
  readonly redirections: string;
  /** Lines that run when the program has ended. */
  readonly after: string;
};

/** What to spawn. No shell parses `args` again. */
export type SandboxedCommand = {
  readonly file: string;
  readonly args: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
};

/**
 * The exit code when the sandbox of a program could not be set up; standard error has the reason.
 */
export const sandboxFailedCode = 125;

/** The names of variables that shells reserve. */
const shellNames = /^(PPID|UID|EUID|GROUPS|OPTIND|LINENO|SHELLOPTS|BASHOPTS|BASH_VERSINFO|_)$/;
/** Names that a shell can set. */
const shellForm = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** Allowed names of variables and secrets. */
const variableForm = /^[A-Za-z0-9_.-]+$/;
/**
 * Maximum number of processes and threads, per project user, or per sandbox where the platform is
 * not root. Stops a fork bomb.
 */
const processesMax = 16_384;
/** Maximum number of open files of one process, unless the machine allows fewer. */
const openFilesMax = 65_536;
/** The limit of Linux for one word or variable of a program, with the zero at its end. */
const wordBytesMax = 131_072;
/**
 * Slightly below the limit of Linux for all words and variables of a program together, which is
 * 2 MiB if the stack has its usual limit.
 */
const wordsBytesMax = 2_000_000;

/** The network support of a sandbox; null where programs share the machine's network. */
export function ownNetwork(sandbox: Sandbox): OwnNetwork | null {
  return sandbox.kind === "namespaces" && sandbox.network.kind === "own" ? sandbox.network : null;
}

/** Whether the sandbox can limit what a program reaches. */
export function egressOf(sandbox: Sandbox): Egress {
  if (sandbox.kind === "none") return { canLimit: false, reason: sandbox.reason };
  const { network } = sandbox;
  return network.kind === "own"
    ? { canLimit: true, allowed: network.allowed }
    : { canLimit: false, reason: network.reason };
}

/** Why a program cannot get a variable of this name, as the end of a sentence; null when it can. */
export function variableRefusal(name: string): string | null {
  return variableForm.test(name)
    ? null
    : 'names of variables have letters, digits, "_", "." and "-"';
}

/**
 * Returns the command that runs `run.command` in the sandbox. `network`: shell lines that connect
 * the run's own network (see `network.ts`); null: the run shares the machine's network. Pure; omits
 * variables that `variableRefusal` refuses.
 */
export function sandboxed(
  sandbox: Sandbox,
  run: SandboxedRun,
  network: string | null,
): SandboxedCommand {
  if (sandbox.kind === "none") {
    const [file, ...args] = run.command;
    return { file, args, environment: run.environment };
  }
  const script = baseScript(sandbox, run.view, network) + startScript(sandbox, run, nothingAround);
  const { file, args } = sandboxShell(sandbox, network !== null);
  return {
    file,
    args: [...args, "-c", script, "sh", run.cwd, ...run.command],
    environment: { ...toolsEnvironment, ...carriedOf(run) },
  };
}

/**
 * A shell in new namespaces. Without arguments it executes what it reads from standard input: the
 * base, which takes most of the time and is the same for each program, and then a program's script.
 * So a shell can be prepared before its program is known.
 */
export function sandboxShell(sandbox: Sandbox, hasNetwork: boolean): SandboxedCommand {
  if (sandbox.kind === "none") return { file: "/bin/sh", args: [], environment: toolsEnvironment };
  const args = [...namespaceOptions(sandbox.isUserOwned, hasNetwork), "sh"];
  return { file: "unshare", args, environment: toolsEnvironment };
}

/** The first lines for a `sandboxShell`: its base, which is the same for each program. */
export function baseScript(
  sandbox: Sandbox,
  base: views.SandboxBase,
  network: string | null,
): string {
  if (sandbox.kind === "none") return limits;
  const root = shellQuoted(base.stagingDir);
  const from = shellQuoted(base.etcDir);
  const to = shellQuoted(views.etcOf(base));
  // The first copy fails if the platform replaces a file in the copied folder meanwhile, which it
  // does when the machine's /etc has changed. The second copy then completes the first.
  const etc = `{ cp -a ${from} ${to} 2>/dev/null || cp -a ${from}/. ${to}; }`;
  const mount = `mount -t tmpfs -o ${views.stagingOptions} tmpfs ${root} && ${etc} && ${mountAll(base, views.baseTable(base, sandbox))}`;
  return `${network ?? ""}umask 022\n${processLimit}${limits}{ ${mount}; } || exit ${sandboxFailedCode}\n`;
}

/**
 * The script of one program, for a `sandboxShell` that has executed its base. The shell starts
 * nothing before it has read the whole script.
 */
export function runScript(sandbox: Sandbox, run: SandboxedRun, around: Around): string {
  const carried = Object.entries(carriedOf(run)).map(
    ([name, value]) => `export ${name}=${shellQuoted(value)}`,
  );
  const words = [run.cwd, ...run.command].map((word) => shellQuoted(word));
  const ready =
    sandbox.kind === "none"
      ? around.ready
      : `${writeEntry(sandbox, run, around.entry)}${around.ready}`;
  const start = startScript(sandbox, run, { ...around, ready });
  const lines = [around.before, ...carried, `set -- ${words.join(" ")}`, start];
  return `{\n${lines.join("\n")}}\n`;
}

/**
 * Lines of the script that write to a file how the program is started and with which variables; the
 * file lasts until the sandbox ends. The file lies in memory outside the program's view, and only
 * root may read it. The file stays empty if the memory lacks space; standard error is closed, since
 * that is no error of the sandbox.
 */
function writeEntry(sandbox: Namespaces, run: SandboxedRun, entry: string): string {
  const file = shellQuoted(entryPath(entry));
  const text = `{ printf %s ${shellQuoted(entryLimits)} && export -p && printf '%s\\n' ${shellQuoted(entryCommand(sandbox, run))}; }`;
  return `umask 077\n${text} 2>&- >${file} || : >${file}\numask 022\n`;
}

/** The whole text of the file that `writeEntry` writes, for who writes it without a shell. */
export function entryText(sandbox: Namespaces, run: SandboxedRun): string {
  const exports = Object.entries(carriedOf(run)).map(
    ([name, value]) => `export ${name}=${shellQuoted(value)}\n`,
  );
  return `${entryLimits}${exports.join("")}${entryCommand(sandbox, run)}\n`;
}

/** The line that starts a further program in a sandbox, with the words of the script after it. */
function entryCommand(sandbox: Namespaces, run: SandboxedRun): string {
  const inside = shellQuoted(insideScript(namesOf(run)));
  return `exec ${dropWords(sandbox, run)}sh -c ${inside} sh ${shellQuoted(run.cwd)} "$@"`;
}

/**
 * The command that runs `command` in the sandbox whose first process is `pid`, in the same way as
 * the sandbox's program: with that program's user, folder, limits and variables. The variables
 * `environment` are added. The command fails when `pid` is another process by now, since that one
 * lacks the file of the entry.
 */
export function enteringSandbox(
  sandbox: Namespaces,
  given: Pick<SandboxedRun, "command" | "environment"> & EntryRef & { readonly isForked: boolean },
): SandboxedCommand {
  const { pid, entry, command, environment, isForked } = given;
  const args = ["--target", String(pid), "--mount", "--pid", "--ipc"];
  // The user namespace of a fork is one below that of its mounts.
  if (sandbox.isUserOwned || isForked) args.push("--user", "--preserve-credentials");
  if (sandbox.network.kind === "own") args.push("--net");
  return {
    file: "nsenter",
    // The file ends with `exec`, unless it is empty, since there was no memory for it.
    args: [
      ...args,
      "sh",
      "-c",
      `. ${shellQuoted(isForked ? forkEntryPath : entryPath(entry))}; exit ${sandboxFailedCode}`,
      "sh",
      ...command,
    ],
    environment: { ...toolsEnvironment, ...environment },
  };
}

type EntryRef = { readonly pid: number; readonly entry: string };

/**
 * True when the sandbox can be entered. A sandbox that an older version of the platform has made
 * has no file of the entry, and a file for which the memory lacked space is empty.
 */
export function hasEntry({ pid, entry }: EntryRef): boolean {
  return (
    (statSync(`/proc/${pid}/root${entryPath(entry)}`, { throwIfNoEntry: false })?.size ?? 0) > 0
  );
}

/** The folder of a small file system that only a forked replica has, and the file in there. */
export const forkEntryDir = "/entry";
const forkEntryPath = `${forkEntryDir}/enter`;

/** Where the file of `writeEntry` is, as seen from the root of the sandbox. */
function entryPath(entry: string): string {
  return `/enter-${entry}`;
}

const nothingAround: Omit<Around, "before" | "entry"> = {
  ready: "",
  words: "",
  redirections: "",
  after: "",
};

/**
 * Shows the program its view and runs it, with its working directory and its words as the shell's
 * parameters.
 */
function startScript(
  sandbox: Sandbox,
  run: SandboxedRun,
  around: Omit<Around, "before" | "entry">,
): string {
  const inside = `/bin/sh -c ${shellQuoted(insideScript(namesOf(run)))} sh "$@"`;
  // Runs the program in the foreground, so that the program keeps the default of every signal, and
  // the shell outlives the program to report its exit.
  const start = (drop: string): string =>
    `${around.ready}\n${around.words}${drop}${inside} ${around.redirections}\n${around.after}\n`;
  if (sandbox.kind === "none") return start("");
  // In a namespace that an ordinary user owns, the program sees itself as user 0.
  const view = {
    ...run.view,
    account: { user: sandbox.isUserOwned ? 0 : run.user, home: run.home },
  };
  const account = Object.entries(accountFiles(view.account)).map(([name, text]) => {
    const file = `${views.etcOf(view)}/${name}`;
    return `printf %s ${shellQuoted(text)} >${shellQuoted(file)} && `;
  });
  const mount = `${account.join("")}${mountAll(view, views.viewTable(view, sandbox))}`;
  return `{ ${mount} && ${leaveMachine(view)}; } || exit ${sandboxFailedCode}\n${start(around.drop ?? dropWords(sandbox, run))}`;
}

/** Words to put before a program, so that it sees only the view and has no special rights. */
function dropWords({ isUserOwned }: Namespaces, { user }: Pick<SandboxedRun, "user">): string {
  const asUser = isUserOwned ? "" : ` --reuid=${user} --regid=${user} --clear-groups`;
  return `chroot ${views.viewPath} setpriv --no-new-privs --bounding-set=-all --inh-caps=-all${asUser} `;
}

type Words = Pick<SandboxedRun, "command" | "environment">;

/**
 * Why the program cannot get these words and variables, as the end of a sentence; null when it can.
 */
export function wordsRefusal(run: Words): string | null {
  const variables = Object.entries(carriedOf(run)).map(([name, value]) => `${name}=${value}`);
  const words = [insideScript(namesOf(run)), ...variables, ...run.command];
  if (words.some((word) => word.includes("\0")))
    return "a variable or the start command has a character of code 0";
  const sizes = words.map((word) => Buffer.byteLength(word) + 1);
  const totalSize = sizes.reduce((sum, size) => sum + size);
  const isTooLarge = Math.max(...sizes) > wordBytesMax || totalSize > wordsBytesMax;
  return isTooLarge ? "its variables are too large for one process" : null;
}

/** The program's variables under other names, which every shell can set and gives no meaning to. */
function carriedOf(run: Words): Readonly<Record<string, string>> {
  const names = namesOf(run);
  return Object.fromEntries(
    names.map((name, index) => [carrierName(names, index), run.environment[name] ?? ""]),
  );
}

/**
 * The name that carries the variable at `index` of `names`. It has one more underscore after
 * `carried` than any of `names`, and so is equal to none of them.
 */
function carrierName(names: readonly string[], index: number): string {
  const lengths = names.map((name) => /^carried(_*)/.exec(name)?.[1]?.length ?? 0);
  const longest = Math.max(0, ...lengths);
  return `carried${"_".repeat(longest + 1)}${index}`;
}

/** The names of the variables that the program can get. */
function namesOf({ environment }: Words): string[] {
  return Object.keys(environment).filter((name) => variableRefusal(name) === null);
}

/**
 * The options of `unshare`. With `--kill-child`, no process survives when the process that the
 * platform has spawned is killed. The shell is the namespace's first process.
 */
function namespaceOptions(isUserOwned: boolean, hasNetwork: boolean): string[] {
  const network = hasNetwork ? ["--net"] : [];
  const namespaces = ["--mount", "--pid", "--ipc", ...network, "--fork", "--kill-child"];
  return isUserOwned ? ["--user", "--map-root-user", ...namespaces] : namespaces;
}

/** Mounts all lines of the table. It is written to a file, since `mount` reads no other tables. */
function mountAll({ stagingDir }: views.SandboxBase, table: string): string {
  const file = shellQuoted(`${stagingDir}/table`);
  return `printf %s ${shellQuoted(table)} >${file} && mount -a -T ${file}`;
}

/**
 * Removes the machine's own root from the namespace. `chroot` then hides what is outside the view.
 * A second pivot would hide that too, but then the program could make user namespaces of its own,
 * which the kernel refuses in a chroot.
 */
function leaveMachine(view: views.SandboxBase): string {
  return `cd ${shellQuoted(views.rootOf(view))} && pivot_root . . && umount -c -l .`;
}

/** No core dumps, and `openFilesMax` open files, or as many as the machine allows. */
const limits = `ulimit -c 0\nulimit -n ${openFilesMax} 2>&- || ulimit -n "$(ulimit -Hn)"\n`;
/**
 * Sets the limit of processes, for which shells use different letters; a lower limit of the machine
 * remains. Standard error is closed, since there is no /dev/null when a sandbox is entered again.
 */
const processLimit = `{ ulimit -p ${processesMax} || ulimit -u ${processesMax} || :; } 2>&-\n`;

/** Further programs of a sandbox get the same limits as its first one. */
const entryLimits = `umask 022\n${processLimit}${limits}`;

/**
 * The script that runs without privileges. It restores the program's variables, which were passed
 * under other names, and then executes the program.
 */
function insideScript(names: readonly string[]): string {
  const carried = names.map((name, index) => ({ name, carrier: carrierName(names, index) }));
  const isPlain = ({ name }: { name: string }): boolean =>
    shellForm.test(name) && !shellNames.test(name);
  const exports = carried
    .filter(isPlain)
    .map(({ name, carrier }) => `export ${name}="$${carrier}"; unset ${carrier}`);
  // `cd` has set OLDPWD, and LC_ALL comes from the environment of the platform's tools, unless the
  // program has a variable of this name.
  const unset = names.includes("LC_ALL") ? "unset OLDPWD" : "unset OLDPWD LC_ALL";
  return [
    // With 126, a shell says that a program cannot be executed.
    'cd "$1" || exit 126',
    "shift",
    unset,
    ...exports,
    execLine(carried.filter((variable) => !isPlain(variable))),
  ].join("\n");
}

/**
 * The line that executes the program. A shell cannot set variables with these names, but `env` can.
 * `env` takes the values from its environment, so that process lists do not show them.
 */
function execLine(
  oddNames: readonly { readonly name: string; readonly carrier: string }[],
): string {
  if (oddNames.length === 0) return 'exec "$@"';
  const words = [
    ...oddNames.map(({ carrier }) => `-u ${carrier}`),
    ...oddNames.map(({ name, carrier }) => `${name}=\${${carrier}}`),
  ];
  return `exec /usr/bin/env -S '${words.join(" ")}' "$@"`;
}
