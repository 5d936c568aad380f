// Runs the tools of a build (venv, pip, uv) and the commands of the app, with a small environment.
// Output streams to the build's log. When the build ends, its programs are killed with all their
// descendants. Code from the app or its packages runs in the sandbox, if there is one.
import { projectUser } from "#drivers/project-user.ts";
import { existsSync } from "node:fs";
import { chown, mkdir } from "node:fs/promises";
import { isAbsolute, join } from "node:path";
import { runCommand, type CommandEnd } from "#lib/command.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Mask } from "#drivers/build-secrets.ts";
import type { BuildLog, BuildStage } from "#drivers/builder.ts";
import { entering, type Cgroup } from "./cgroup.ts";
import { writeEtc } from "./etc-folder.ts";
import { connectNetwork } from "./network-machine.ts";
import { ownNetwork, sandboxed, type Sandbox } from "./sandbox.ts";
import { codeAlias } from "./sandbox-view.ts";
import { isBelow } from "./system-mounts.ts";

/** How one build runs commands. */
export type BuildTools = {
  readonly log: BuildLog;
  readonly signal: AbortSignal;
  /** PATH, proxies, certificates, package indexes; no secrets of the platform. */
  readonly environment: Readonly<Record<string, string>>;
  /** The timeout of one command. */
  readonly timeoutMs: number;
  /** Hides the build's secrets in all output. */
  readonly mask: Mask;
  readonly sandbox: Sandbox;
  /** Contains all processes of the build. */
  readonly cgroup: Cgroup;
  readonly projectId: ProjectId;
  /** Folders used only by this build. */
  readonly homeDir: string;
  readonly stagingDir: string;
  readonly etcDir: string;
  /** Folders hidden from commands of apps: the platform's data. */
  readonly hidden: readonly string[];
};

/** The folders that a confined program sees besides the system and its home. */
export type Visible = {
  readonly readOnly: readonly string[];
  readonly writable: readonly string[];
  /** The app's code, also visible at `codeAlias`; one of `writable`. */
  readonly codeDir?: string;
};

export type ToolRun = {
  readonly command: readonly [string, ...string[]];
  readonly cwd: string;
  readonly stage: BuildStage;
  readonly environment?: Readonly<Record<string, string>>;
  /** Set for programs that run code of the app or of its packages. */
  readonly confinedTo?: Visible;
  /** Keeps the output out of the log; it is still returned. */
  readonly isQuiet?: boolean;
};

export type ToolResult = {
  readonly isOk: boolean;
  readonly end: CommandEnd;
  readonly output: string;
};

/** The maximum length of the returned output: its end is enough to show the error. */
const outputCharactersMax = 20_000;

/** Runs the command to its end; rejects with the signal's reason when the build is aborted. */
export async function runTool(tools: BuildTools, run: ToolRun): Promise<ToolResult> {
  let output = "";
  const end = await runCommand({
    ...inCgroup(tools, commandToSpawn(tools, run)),
    cwd: run.cwd,
    signal: tools.signal,
    timeoutMs: tools.timeoutMs,
    onLine: (stream, line) => {
      // Neither the log nor a message that quotes the output shows where the platform keeps its
      // data.
      const text = tools.hidden.reduce(
        (shown, folder) => shown.replaceAll(folder, "…"),
        tools.mask(line),
      );
      output = `${output}${text}\n`.slice(-outputCharactersMax);
      if (run.isQuiet !== true) tools.log(run.stage, stream, text);
    },
  });
  tools.signal.throwIfAborted();
  return { isOk: end.kind === "exited" && end.exitCode === 0, end, output };
}

/**
 * Creates the folder if needed, and gives it to the user that confined programs run as: with its
 * contents, or with `depth` "itself" the folder alone.
 */
export async function giveFolder(
  tools: BuildTools,
  folder: string,
  depth: "all" | "itself" = "all",
): Promise<void> {
  await mkdir(folder, { recursive: true });
  if (tools.sandbox.kind === "none" || tools.sandbox.isUserOwned) return;
  const user = projectUser(tools.projectId);
  if (depth === "itself") return await chown(folder, user, user);
  const command = ["chown", "-R", "-h", `${user}:${user}`, folder] as const;
  await runTool(tools, { command, cwd: "/", stage: "code", isQuiet: true });
}

/** How a command ended; completes a sentence that starts with "the command". */
export function exitText(end: CommandEnd, timeoutMs: number): string {
  if (end.kind === "timeout") return `took longer than ${Math.round(timeoutMs / 1000)} s`;
  if (end.kind === "not_started") return `could not be started (${end.reason})`;
  if (end.kind !== "exited") return "was ended";
  return `ended with exit code ${end.exitCode}${exitCodes[end.exitCode] ?? ""}`;
}

/** What exit codes of the sandbox (125) and of shells mean. */
const exitCodes: Readonly<Record<number, string>> = {
  125: " (its sandbox could not be set up)",
  126: " (not executable)",
  127: " (command not found)",
  137: " (killed, possibly because it ran out of memory)",
  143: " (terminated)",
};

type SpawnCommand = {
  readonly command: readonly [string, ...string[]];
  readonly environment: Readonly<Record<string, string>>;
};

function inCgroup(
  { cgroup }: BuildTools,
  { command: [file, ...args], environment }: SpawnCommand,
): SpawnCommand {
  const entered = entering(cgroup, { file, args, environment });
  return { command: [entered.file, ...entered.args], environment };
}

function commandToSpawn(tools: BuildTools, run: ToolRun): SpawnCommand {
  const environment = { ...tools.environment, ...run.environment };
  if (run.confinedTo === undefined || tools.sandbox.kind === "none")
    return { command: run.command, environment };
  const network = ownNetwork(tools.sandbox);
  // A command of a build gets no calls, so that it needs no redirection of them.
  const hasServer = false;
  writeEtc(tools.etcDir, tools.sandbox, { isBuild: true });
  const view = {
    stagingDir: tools.stagingDir,
    etcDir: tools.etcDir,
    temporaryDir: join(tools.homeDir, "tmp"),
    readOnly: [...run.confinedTo.readOnly, ...namedFolders(tools)],
    writable: [...run.confinedTo.writable, tools.homeDir],
    aliases:
      run.confinedTo.codeDir === undefined ? [] : [{ of: run.confinedTo.codeDir, at: codeAlias }],
    hidden: tools.hidden,
  };
  const { command, cwd } = run;
  const confined = sandboxed(
    tools.sandbox,
    { command, cwd, environment, view, home: tools.homeDir, user: projectUser(tools.projectId) },
    network === null ? null : connectNetwork(network, hasServer).setup,
  );
  return { command: [confined.file, ...confined.args], environment: confined.environment };
}

/**
 * Existing folders and files that the operator's variables for tools name (`PIP_FIND_LINKS`,
 * `SSL_CERT_FILE`, …).
 */
function namedFolders({ environment, hidden }: BuildTools): string[] {
  const values = Object.entries(environment).filter(([name]) =>
    /^(PIP|UV|SSL|REQUESTS|CURL|NIX)_/.test(name),
  );
  const paths = values
    .flatMap(([, value]) => value.split(/[\s:]+/))
    .map((path) => path.replace(/^file:\/\//, ""));
  // To show the root would show the whole machine.
  const isShown = (path: string): boolean =>
    path.length > 1 &&
    isAbsolute(path) &&
    existsSync(path) &&
    !hidden.some((folder) => isBelow(path, folder));
  return [...new Set(paths)].filter((path) => isShown(path));
}
