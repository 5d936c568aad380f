// Asks the processes of a container to end: first the command, then the processes that it leaves,
// such as a server started by a shell. The engine's init is halted meanwhile: it would end with the
// command and take the other processes with it.
import type Docker from "dockerode";
import { unlessStatus, type Engine } from "./engine.ts";
import { runInside } from "./run-inside.ts";

/** What the engine answers when the container does not exist (404), or does not run (409). */
const goneStatuses = [404, 409];
/** The number of processes while a container runs only the init and its command. */
const processesAlone = 2;

/**
 * Resolves when all processes have been sent the signal, or when somebody else has killed the
 * container meanwhile.
 */
export async function askToEnd(engine: Engine, containerId: string, signal: string): Promise<void> {
  const container = engine.calls.getContainer(containerId);
  const kill = async (name: string): Promise<void> => {
    await unlessStatus(goneStatuses, container.kill({ signal: name }));
  };
  if (signal === "SIGKILL" || (await countProcesses(container)) <= processesAlone)
    return await kill(signal);
  await kill("SIGSTOP");
  // The script fails in an image without a shell, where no process can hide behind a shell either.
  // A shell names signals without SIG.
  const command = ["sh", "-c", script, "sh", signal.replace(/^SIG/, "")];
  const exitCode = await runInside(engine, containerId, command).then(
    (end) => end.exitCode,
    () => null,
  );
  await kill("SIGCONT");
  // If the script has failed, the init gets the signal and passes it on to the command.
  if (exitCode !== 0) await kill(signal);
}

/**
 * Counts the processes that the engine can see; with gVisor it does not see all. Returns 0 when the
 * engine does not say.
 */
async function countProcesses(container: Docker.Container): Promise<number> {
  const list = (await container.top().catch(() => null)) as {
    readonly Processes: unknown[] | null;
  } | null;
  return list?.Processes?.length ?? 0;
}

/**
 * Sends the signal to the command and, when that has ended, to all other processes. The command is
 * the first child of the init; the shell that runs the script is none of its children. A zombie
 * counts as ended: while the init is halted, it does not collect its children. In `stat`, the state
 * follows the process's name, which ends with `)`. `kill` with -1 reaches neither the init nor the
 * shell itself. The script exits with 3 if it cannot signal the command, and with 4 if the image
 * has no `sleep`.
 */
const script = `
lives() { read -r line <"/proc/$1/stat" || return 1; case \${line##*) } in Z*|X*) return 1;; esac; }
any_lives() {
  for folder in /proc/[0-9]*; do
    case \${folder#/proc/} in 1|$$) continue;; esac
    lives "\${folder#/proc/}" && return 0
  done
  return 1
}
read -r first rest </proc/1/task/1/children
[ -n "$first" ] && kill -$1 "$first" || exit 3
while lives "$first"; do sleep 0.1 || exit 4; done
any_lives || exit 0
kill -$1 -1
while any_lives; do sleep 0.1 || exit 4; done
exit 0
`;
