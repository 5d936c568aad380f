// Asks what runs in a container to end: its command first, and then whatever that leaves, such as a
// server behind a shell. The engine's init would end with the command and take the rest with it, so
// it is halted meanwhile.
import type Docker from "dockerode";
import { unlessStatus, type Engine } from "./engine.ts";
import { runInside } from "./run-inside.ts";

const goneStatuses = [404, 409];
/** The init and the command itself. */
const processesAlone = 2;

/**
 * Resolves when the signal was sent to all that were to have it; the container ends then, or is
 * killed meanwhile.
 */
export async function askToEnd(engine: Engine, containerId: string, signal: string): Promise<void> {
  const container = engine.calls.getContainer(containerId);
  const kill = async (name: string): Promise<void> => {
    await unlessStatus(goneStatuses, container.kill({ signal: name }));
  };
  if (signal === "SIGKILL" || (await countProcesses(container)) <= processesAlone)
    return await kill(signal);
  await kill("SIGSTOP");
  // An image without a shell has nothing that hides behind one.
  const command = ["sh", "-c", script, "sh", signal.replace(/^SIG/, "")];
  const exitCode = await runInside(engine, containerId, command).then(
    (end) => end.exitCode,
    () => null,
  );
  await kill("SIGCONT");
  if (exitCode !== 0) await kill(signal);
}

/** As far as the engine can tell: gVisor does not tell all. */
async function countProcesses(container: Docker.Container): Promise<number> {
  const found = (await container.top().catch(() => null)) as {
    readonly Processes: unknown[] | null;
  } | null;
  return found?.Processes?.length ?? 0;
}

/**
 * What has ended stays as a zombie while the init is halted. The shell itself is no child of the
 * init.
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
