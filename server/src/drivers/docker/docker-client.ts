// Finds a docker command line on this machine that can build with BuildKit, and runs it. The client
// sees nothing of the operator's own configuration: it has only the credentials that a call passes.
import { access, constants } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { runCommand, type CommandEnd, type CommandOptions } from "#lib/command.ts";

/** A usable client. */
export type FoundClient = {
  readonly ok: true;
  /** The path of the client's program. */
  readonly program: string;
  /** The words of its build command: `buildx build` where the plugin is installed, else `build`. */
  readonly build: readonly string[];
};

/** No client can be used; `reason` ends a sentence. */
export type NoClient = { readonly ok: false; readonly reason: string };

/** From this version on, only the buildx plugin can use BuildKit. */
const pluginVersionMin = 23;
/** How long the client may take to say its version. */
const askWaitMs = 20_000;
/** Inspecting, removing and tagging images takes moments, pruning a large cache minutes. */
const commandWaitMs = 300_000;
/** The maximum output of a command: a list of a hundred thousand images fits. */
const outputBytesMax = 16_777_216;

/** The folders of plugins besides those of the system. */
export const pluginFolders: readonly string[] = [join(homedir(), ".docker/cli-plugins")];

/** Finds the first client in the PATH that can build; skips clients without BuildKit. */
export async function findClient(
  environment: Readonly<Record<string, string>>,
): Promise<FoundClient | NoClient> {
  const folders = new Set(
    (environment["PATH"] ?? "").split(":").filter((folder) => folder.startsWith("/")),
  );
  const unusable: string[] = [];
  for (const folder of folders) {
    const program = join(folder, "docker");
    const isExecutable = await access(program, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (!isExecutable) continue;
    if ((await ask([program, "buildx", "version"], environment)) !== null) {
      return { ok: true, program, build: ["buildx", "build"] };
    }
    const version = /version (\d+)\./.exec(
      (await ask([program, "--version"], environment)) ?? "",
    )?.[1];
    if (version !== undefined && Number(version) < pluginVersionMin)
      return { ok: true, program, build: ["build"] };
    unusable.push(program);
  }
  if (unusable.length === 0)
    return { ok: false, reason: "there is no docker command line in the PATH" };
  return {
    ok: false,
    reason: `${unusable.join(" and ")} cannot build images without its plugin buildx`,
  };
}

/** Returns the output of a short command; null when it fails. */
async function ask(
  command: [string, ...string[]],
  environment: Readonly<Record<string, string>>,
): Promise<string | null> {
  const { end, output } = await collect({
    command,
    cwd: "/",
    environment,
    timeoutMs: askWaitMs,
    signal: neverAborted,
  });
  return end.kind === "exited" && end.exitCode === 0 ? output : null;
}

/** A signal that is never aborted. */
const neverAborted = new AbortController().signal;

/**
 * Runs a command of the client to its end and returns its output. When it fails, rejects with an
 * error that contains the end of its output.
 */
export async function runClient(
  program: string,
  parameters: readonly string[],
  options: Pick<CommandOptions, "environment"> &
    Partial<Pick<CommandOptions, "signal" | "timeoutMs">>,
): Promise<string> {
  const { environment, signal = neverAborted, timeoutMs = commandWaitMs } = options;
  const command = [program, ...parameters] as const;
  const { end, output, errors } = await collect({
    command,
    cwd: "/",
    environment,
    timeoutMs,
    signal,
  });
  signal.throwIfAborted();
  if (end.kind === "exited" && end.exitCode === 0) return output;
  const text = `${output}\n${errors}`.trim().slice(-500);
  // Without any output, the error says how the command ended, for example by a timeout.
  const why = text === "" ? end.kind : text;
  throw new Error(`docker ${parameters[0]} ${parameters[1] ?? ""}: ${why}`);
}

/** Takes standard output as it is: if it were split into lines, long lines would be cut off. */
async function collect(
  options: CommandOptions,
): Promise<{ end: CommandEnd; output: string; errors: string }> {
  const chunks: Buffer[] = [];
  const errors: string[] = [];
  let bytes = 0;
  const onOutput = (chunk: Buffer): boolean => {
    chunks.push(chunk);
    bytes += chunk.length;
    return bytes <= outputBytesMax;
  };
  const onLine: CommandOptions["onLine"] = (_stream, text) => void errors.push(text);
  const end = await runCommand({ ...options, onLine, onOutput });
  return { end, output: Buffer.concat(chunks).toString().trim(), errors: errors.join("\n") };
}
