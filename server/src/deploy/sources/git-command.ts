// Runs git on repositories that nobody vouches for: one protocol, no hooks, no submodules, no redirects, no LFS, no
// configuration but this, credentials by environment only. `git.ts` is its only caller.
import { join } from "node:path";
import type { GitCredential } from "#apps/credentials.ts";
import { runCommand, type CommandEnd } from "#lib/command.ts";
import type { SourceUrl } from "./git-url.ts";

/** Files that ssh needs; made by the caller. */
export type SshFiles = { readonly keyFile: string | null; readonly knownHostsFile: string };

export type GitRun = {
  readonly args: readonly string[];
  /** The repository; it has a folder of its own, apart from the files. */
  readonly gitDir: string;
  readonly workTree: string;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** Present for the commands that talk to the host. */
  readonly remote?: { readonly url: SourceUrl; readonly credential: GitCredential | null; readonly ssh: SshFiles };
  /** Takes standard output in place of `output`; false ends git. */
  readonly onOutput?: (chunk: Buffer) => boolean;
};

export type GitResult = {
  readonly end: CommandEnd;
  readonly isOk: boolean;
  /** It was ended because it wrote more errors than anybody reads; with fetches these are the host's messages. */
  readonly isChatty: boolean;
  /** Standard output and error, each cut at `outputCharactersMax`. */
  readonly output: string;
  readonly errorOutput: string;
};

/** The username that git hosts take together with a token when none is named. */
const tokenUsername = "x-access-token";
/** The user that git hosts have for ssh. */
const sshUsername = "git";
const outputCharactersMax = 1_000_000;
/**
 * Larger objects that are not sent as a difference need no memory; a difference of a kilobyte could ask for any amount.
 * Hosts send none of what is larger, unless they are told to.
 */
const objectBytesMax = 512 * 1024 * 1024;
/** Beside an object and what it is a difference to: programs, the parts of packs that are mapped, lists of references. */
const otherBytesMax = 256 * 1024 * 1024;
/** The exit code of git when it has used up its processor time (SIGXCPU). */
export const cpuTimeExitCode = 128 + 24;
/** Bounds git and what it starts; a system that does not know a limit goes without it. */
const limited = `ulimit -v "$1" 2>/dev/null; ulimit -S -t "$2" 2>/dev/null; shift 2; exec "$@"`;

/** Settings that hold for every run, whatever the machine is configured to. */
const settings: readonly (readonly [string, string])[] = [
  ["core.hooksPath", "/dev/null"],
  ["core.fsmonitor", "false"],
  ["core.attributesFile", "/dev/null"],
  ["core.symlinks", "true"],
  ["core.autocrlf", "false"],
  ["core.protectHFS", "true"],
  ["core.protectNTFS", "true"],
  ["core.bigFileThreshold", "64m"],
  ["core.packedGitWindowSize", "32m"],
  ["core.packedGitLimit", "128m"],
  ["pack.threads", "2"],
  ["credential.helper", ""],
  ["fetch.recurseSubmodules", "false"],
  ["submodule.recurse", "false"],
  // Packs are kept as they come: the size on disk then is what was sent.
  ["fetch.unpackLimit", "1"],
  ["transfer.fsckObjects", "true"],
  // Blemishes of old histories that do no harm.
  ["fetch.fsck.zeroPaddedFilemode", "ignore"],
  ["fetch.fsck.missingSpaceBeforeDate", "ignore"],
  ["fetch.fsck.badTimezone", "ignore"],
  ["transfer.bundleURI", "false"],
  ["http.followRedirects", "false"],
  // Slower than 1 kB/s for a minute counts as broken.
  ["http.lowSpeedLimit", "1000"],
  ["http.lowSpeedTime", "60"],
  ["gc.auto", "0"],
  ["maintenance.auto", "false"],
  ["advice.detachedHead", "false"],
];

/** Processor time for a repository of so many bytes: to unpack and check 2 GB takes 20 s; what takes far longer is made to. */
export function cpuSecondsFor(bytes: number): number {
  return 60 + Math.ceil(bytes / 20_000_000);
}

/** git as it is installed here. */
export class Git {
  readonly #environment: Readonly<Record<string, string>>;
  readonly #objectBytesMax: number;
  readonly #cpuSecondsMax: number;

  /**
   * `toolEnvironment`: where programs, proxies and certificates are; package indexes are left out. `objectBytesMax`: the
   * most memory that git may take for one object. `cpuSecondsMax`: the most processor time of one of its processes.
   */
  constructor(options: {
    readonly toolEnvironment: Readonly<Record<string, string>>;
    readonly objectBytesMax?: number;
    readonly cpuSecondsMax?: number;
  }) {
    this.#objectBytesMax = options.objectBytesMax ?? objectBytesMax;
    this.#cpuSecondsMax = options.cpuSecondsMax ?? cpuSecondsFor(0);
    const wanted = Object.entries(options.toolEnvironment).filter(([name]) => !/^(PIP|UV|PYENV)_/.test(name));
    this.#environment = Object.fromEntries(wanted);
  }

  /** The version, for example `2.39.5`; null when there is no git that starts. */
  async version(signal: AbortSignal): Promise<string | null> {
    let text = "";
    await runCommand({
      command: ["git", "--version"],
      cwd: "/",
      environment: this.#environment,
      signal,
      timeoutMs: 10_000,
      onLine: (_stream, line) => (text += line),
    });
    return /^git version (\d+(?:\.\d+)+)/.exec(text)?.[1] ?? null;
  }

  /** Runs git once. Never rejects; what it wrote holds no credential. */
  async run(run: GitRun): Promise<GitResult> {
    let output = "";
    let errorOutput = "";
    const chatty = new AbortController();
    const kilobytesMax = Math.round((2 * this.#objectBytesMax + otherBytesMax) / 1024);
    const limits = ["/bin/sh", "-c", limited, "sh", String(kilobytesMax), String(this.#cpuSecondsMax)] as const;
    const end = await runCommand({
      command: [...limits, "git", "--git-dir", run.gitDir, "--work-tree", run.workTree, ...run.args],
      cwd: run.workTree,
      environment: this.#environmentOf(run),
      signal: AbortSignal.any([run.signal, chatty.signal]),
      timeoutMs: run.timeoutMs,
      ...(run.onOutput === undefined ? {} : { onOutput: run.onOutput }),
      onLine: (stream, text) => {
        if (stream === "stdout" && output.length < outputCharactersMax) output += `${text}\n`;
        if (stream === "stderr") errorOutput += `${text}\n`;
        if (errorOutput.length > outputCharactersMax) chatty.abort();
      },
    });
    const isOk = end.kind === "exited" && end.exitCode === 0;
    return { end, isOk, isChatty: chatty.signal.aborted, output, errorOutput };
  }

  #environmentOf({ remote, gitDir }: GitRun): Record<string, string> {
    const protocol = remote?.url.protocol;
    const config: (readonly [string, string])[] = [...settings];
    if (remote !== undefined) config.push(...authorization(remote.url, remote.credential));
    return {
      ...this.#environment,
      HOME: gitDir,
      LC_ALL: "C",
      GIT_CONFIG_NOSYSTEM: "1",
      // Written by `git.ts`; holds only what git does not take from the environment.
      GIT_CONFIG_GLOBAL: join(gitDir, "global.config"),
      GIT_TERMINAL_PROMPT: "0",
      GIT_ASKPASS: "true",
      GIT_LFS_SKIP_SMUDGE: "1",
      // Threads share their reserves of memory, which count.
      MALLOC_ARENA_MAX: "1",
      GIT_ALLOC_LIMIT: String(this.#objectBytesMax),
      // An empty list allows none at all.
      GIT_ALLOW_PROTOCOL: protocol ?? "",
      ...(remote?.url.protocol === "ssh" ? { GIT_SSH_COMMAND: sshCommand(remote), GIT_SSH_VARIANT: "ssh" } : {}),
      ...configVariables(config),
    };
  }
}

/** A header that goes to this host only. */
function authorization(url: SourceUrl, credential: GitCredential | null): (readonly [string, string])[] {
  if (credential?.kind !== "token" || !url.protocol.startsWith("http")) return [];
  const pair = `${credential.username ?? tokenUsername}:${credential.secret.reveal()}`;
  const header = `Authorization: Basic ${Buffer.from(pair).toString("base64")}`;
  return [[`http.${url.protocol}://${url.host}/.extraHeader`, header]];
}

function configVariables(config: readonly (readonly [string, string])[]): Record<string, string> {
  const variables: Record<string, string> = { GIT_CONFIG_COUNT: String(config.length) };
  config.forEach(([key, value], index) => {
    variables[`GIT_CONFIG_KEY_${index}`] = key;
    variables[`GIT_CONFIG_VALUE_${index}`] = value;
  });
  return variables;
}

/**
 * ssh without the machine's own configuration, agent and keys. The first key that a host shows is kept per project, and
 * another one is refused later (see docs/decisions/0011-fetching-strangers-code.md). git gives this text to a shell, hence the quotes.
 */
function sshCommand({ url, credential, ssh }: NonNullable<GitRun["remote"]>): string {
  const { keyFile, knownHostsFile } = ssh;
  const options = [
    "BatchMode=yes",
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
    "PasswordAuthentication=no",
    "KbdInteractiveAuthentication=no",
    "StrictHostKeyChecking=accept-new",
    `UserKnownHostsFile="${withoutTokens(knownHostsFile)}"`,
    "GlobalKnownHostsFile=/dev/null",
    "ConnectTimeout=20",
    "ServerAliveInterval=15",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "ProxyCommand=none",
  ];
  // A user in the address wins.
  if (!/^ssh:\/\/[^/]*@/.test(url.url)) options.push(`User=${credential?.username ?? sshUsername}`);
  const identity = keyFile === null ? [] : ["-i", withoutTokens(keyFile)];
  return ["ssh", "-F", "/dev/null", ...identity, ...options.flatMap((option) => ["-o", option])]
    .map(shellQuoted)
    .join(" ");
}

/** ssh replaces tokens such as %h in paths. */
function withoutTokens(path: string): string {
  return path.replaceAll("%", "%%");
}

function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
