// Runs git on untrusted repositories: one protocol, no hooks, no submodules, no redirects, no LFS,
// no external configuration, credentials only in the environment. Called by `git-runs.ts` and
// `git-remote.ts`.
import { join } from "node:path";
import type { GitCredential } from "#apps/credentials.ts";
import { runCommand, type CommandEnd } from "#lib/command.ts";
import { shellQuoted } from "#lib/shell-quoted.ts";
import type { SourceUrl } from "./git-url.ts";

/** Files for ssh; the caller creates them. */
export type SshFiles = { readonly keyFile: string | null; readonly knownHostsFile: string };

export type GitRun = {
  readonly args: readonly string[];
  /** The repository, in its own folder apart from the files. */
  readonly gitDir: string;
  readonly workTree: string;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** Set for commands that connect to the host. */
  readonly remote?: {
    readonly url: SourceUrl;
    readonly credential: GitCredential | null;
    readonly ssh: SshFiles;
  };
  /** Receives standard output instead of `output`; returning false kills git. */
  readonly onOutput?: (chunk: Buffer) => boolean;
};

export type GitResult = {
  readonly end: CommandEnd;
  readonly isOk: boolean;
  /**
   * True when git was killed because it wrote too much to standard error, which has the host's
   * messages during a fetch.
   */
  readonly isChatty: boolean;
  /** Standard output; what goes beyond `outputCharactersMax` is dropped. */
  readonly output: string;
  /** Standard error; git is killed when it exceeds `outputCharactersMax`. */
  readonly errorOutput: string;
};

/** The username that git hosts accept with a token when none is given. */
const tokenUsername = "x-access-token";
/** The usual ssh user of git hosts. */
const sshUsername = "git";
const outputCharactersMax = 1_000_000;
/**
 * The memory limit for one object. A larger object that is stored whole is never held in memory;
 * but a delta of one kilobyte could need any amount. By default, hosts send no deltas of objects
 * that are larger than this.
 */
const objectBytesMax = 512 * 1024 * 1024;
/**
 * Memory in addition to an object and its delta base: programs, mapped parts of packs, lists of
 * references.
 */
const otherBytesMax = 256 * 1024 * 1024;
/** The exit code of git after it exceeds its processor time (SIGXCPU). */
export const cpuTimeExitCode = 128 + 24;
/**
 * Limits the memory (`$1`, in kB) and the processor time (`$2`, in seconds) of git and its child
 * processes, then runs the other arguments. Skips limits that the system does not support.
 */
const limitScript = `ulimit -v "$1" 2>/dev/null; ulimit -S -t "$2" 2>/dev/null; shift 2; exec "$@"`;

/** Settings for every run, regardless of the machine's configuration. */
const settings: readonly (readonly [string, string])[] = [
  ["core.hooksPath", "/dev/null"],
  ["core.fsmonitor", "false"],
  ["core.attributesFile", "/dev/null"],
  ["core.symlinks", "true"],
  ["core.autocrlf", "false"],
  // Names that other file systems take for `.git` are refused.
  ["core.protectHFS", "true"],
  ["core.protectNTFS", "true"],
  // The next four bound the memory that git uses: larger files are not held in it as a whole.
  ["core.bigFileThreshold", "64m"],
  ["core.packedGitWindowSize", "32m"],
  ["core.packedGitLimit", "128m"],
  ["pack.threads", "2"],
  ["credential.helper", ""],
  ["fetch.recurseSubmodules", "false"],
  ["submodule.recurse", "false"],
  // Keeps packs as received, so that the size on disk is the size sent.
  ["fetch.unpackLimit", "1"],
  ["transfer.fsckObjects", "true"],
  // These defects of old histories are harmless.
  ["fetch.fsck.zeroPaddedFilemode", "ignore"],
  ["fetch.fsck.missingSpaceBeforeDate", "ignore"],
  ["fetch.fsck.badTimezone", "ignore"],
  ["transfer.bundleURI", "false"],
  ["http.followRedirects", "false"],
  // Less than 1 kB/s for a minute counts as a broken connection.
  ["http.lowSpeedLimit", "1000"],
  ["http.lowSpeedTime", "60"],
  ["gc.auto", "0"],
  ["maintenance.auto", "false"],
  ["advice.detachedHead", "false"],
];

/**
 * Processor time for a repository of this many bytes: a minute, and five times as long as unpacking
 * and checking usually take, which is 20 s for 2 GB. Anything that takes longer is malicious.
 */
export function cpuSecondsFor(bytes: number): number {
  return 60 + Math.ceil(bytes / 20_000_000);
}

/** The git installed on this machine. */
export class Git {
  readonly #environment: Readonly<Record<string, string>>;
  readonly #objectBytesMax: number;
  readonly #cpuSecondsMax: number;

  /**
   * `toolEnvironment`: paths of programs, proxies and certificates, without package indexes.
   * `objectBytesMax`: git's memory limit for one object. `cpuSecondsMax`: the limit of processor
   * time for each process of git.
   */
  constructor(options: {
    readonly toolEnvironment: Readonly<Record<string, string>>;
    readonly objectBytesMax?: number;
    readonly cpuSecondsMax: number;
  }) {
    this.#objectBytesMax = options.objectBytesMax ?? objectBytesMax;
    this.#cpuSecondsMax = options.cpuSecondsMax;
    const variables = Object.entries(options.toolEnvironment).filter(
      ([name]) => !/^(PIP|UV|PYENV)_/.test(name),
    );
    this.#environment = Object.fromEntries(variables);
  }

  /** The version, for example `2.39.5`; null when git is missing or does not start. */
  async version(signal: AbortSignal): Promise<string | null> {
    let text = "";
    await runCommand({
      command: ["git", "--version"],
      cwd: "/",
      environment: this.#environment,
      signal,
      timeoutMs: 10_000,
      onLine: (_stream, line) => {
        text += line;
      },
    });
    return /^git version (\d+(?:\.\d+)+)/.exec(text)?.[1] ?? null;
  }

  /** Runs git once. Never rejects; its output contains no credentials. */
  async run(run: GitRun): Promise<GitResult> {
    let output = "";
    let errorOutput = "";
    const chatty = new AbortController();
    // An object and its delta base, which may be as large, are in memory at the same time.
    const kilobytesMax = Math.round((2 * this.#objectBytesMax + otherBytesMax) / 1024);
    const limits = [
      "/bin/sh",
      "-c",
      limitScript,
      "sh",
      String(kilobytesMax),
      String(this.#cpuSecondsMax),
    ] as const;
    const end = await runCommand({
      command: [
        ...limits,
        "git",
        "--git-dir",
        run.gitDir,
        "--work-tree",
        run.workTree,
        ...run.args,
      ],
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
      // `git-folder.ts` writes this file, which has only what git does not accept from variables.
      GIT_CONFIG_GLOBAL: join(gitDir, "global.config"),
      GIT_TERMINAL_PROMPT: "0",
      // git asks this program for a password: `true` gives none.
      GIT_ASKPASS: "true",
      GIT_LFS_SKIP_SMUDGE: "1",
      // Otherwise each thread would have a memory arena, which counts towards the memory limit.
      MALLOC_ARENA_MAX: "1",
      GIT_ALLOC_LIMIT: String(this.#objectBytesMax),
      // An empty list allows no protocol.
      GIT_ALLOW_PROTOCOL: protocol ?? "",
      ...(remote?.url.protocol === "ssh"
        ? { GIT_SSH_COMMAND: sshCommand(remote), GIT_SSH_VARIANT: "ssh" }
        : {}),
      ...configVariables(config),
    };
  }
}

/** The setting that makes git send the credential, only to the host of `url`. */
function authorization(
  url: SourceUrl,
  credential: GitCredential | null,
): (readonly [string, string])[] {
  const value = basicAuthorization(url, credential);
  return value === null
    ? []
    : [[`http.${url.protocol}://${url.host}/.extraHeader`, `Authorization: ${value}`]];
}

/**
 * The value of the header that gives access to repositories of the host; null: there is no token,
 * or the address is not an HTTP address.
 */
export function basicAuthorization(
  url: SourceUrl,
  credential: GitCredential | null,
): string | null {
  if (credential?.kind !== "token" || !url.protocol.startsWith("http")) return null;
  const pair = `${credential.username ?? tokenUsername}:${credential.secret.reveal()}`;
  return `Basic ${Buffer.from(pair).toString("base64")}`;
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
 * ssh without the machine's own configuration, agent and keys. Each project stores the first key
 * that a host presents and later refuses another one (see
 * docs/decisions/0011-fetching-strangers-code.md). git passes this text to a shell, hence the
 * quotes.
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
  // A user name in the address takes precedence over both of these names.
  if (!/^ssh:\/\/[^/]*@/.test(url.url)) options.push(`User=${credential?.username ?? sshUsername}`);
  const identity = keyFile === null ? [] : ["-i", withoutTokens(keyFile)];
  return ["ssh", "-F", "/dev/null", ...identity, ...options.flatMap((option) => ["-o", option])]
    .map(shellQuoted)
    .join(" ");
}

/** Escapes a path for ssh, which expands tokens such as %h. */
function withoutTokens(path: string): string {
  return path.replaceAll("%", "%%");
}
