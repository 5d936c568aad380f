// A process under measurement: pinned to a core, known by its id, ended by it.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";

/** How long a process may take until it serves, and until it is gone. */
const startMs = 10_000;
const endMs = 5_000;
const pauseMs = 50;
/** Of the kernel's time accounting; 100 on all common systems. */
const ticksPerSecond = 100;

/** A server that was started for a benchmark. */
export type Child = {
  readonly pid: number;
  readonly port: number;
  /** Seconds of processor time that it and its own children have used so far. */
  cpuSeconds(): number;
  /** Ends it and waits until it is gone. */
  stop(): Promise<void>;
};

/** Starts a server on a core. `port`: where it will listen; null: it prints `listening <port>`. */
export async function startChild(
  command: readonly [string, ...string[]],
  { core, port }: { readonly core: number; readonly port: number | null },
): Promise<Child> {
  const child = spawn("taskset", ["-c", String(core), ...command], { stdio: ["ignore", "pipe", "pipe"] });
  const pid = child.pid ?? -1;
  let printed = "";
  for (const stream of [child.stdout, child.stderr])
    stream.on("data", (chunk: Buffer) => (printed += chunk.toString()));
  const deadline = performance.now() + startMs;
  let listening = port;
  while (!(listening !== null && (await isOpen(listening)))) {
    listening ??= Number(/^listening (\d+)$/m.exec(printed)?.[1] ?? 0) || null;
    if (child.exitCode !== null || performance.now() > deadline) {
      await stopChild(child);
      throw new Error(`${command.join(" ")} does not serve:\n${printed}`);
    }
    await pause();
  }
  return { pid, port: listening, cpuSeconds: () => cpuSecondsOf(pid), stop: () => stopChild(child) };
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, pauseMs));
}

function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port });
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), endMs);
  await gone;
  clearTimeout(timer);
}

function cpuSecondsOf(pid: number): number {
  const own = statOf(pid);
  if (own === null) return 0;
  const children = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => Number(name))
    .filter((other) => statOf(other)?.parent === pid);
  return own.seconds + children.reduce((sum, other) => sum + cpuSecondsOf(other), 0);
}

function statOf(pid: number): { parent: number; seconds: number } | null {
  try {
    // After the name, which is in brackets: state, parent, …; user and system time are fields 14 and 15.
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1")
      .replace(/^.*\) /, "")
      .split(" ");
    return { parent: Number(fields[1]), seconds: (Number(fields[11]) + Number(fields[12])) / ticksPerSecond };
  } catch {
    // It has ended meanwhile.
    return null;
  }
}
