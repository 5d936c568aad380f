// A measured child process: pinned to a core if requested, identified and ended by its process id.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { connect } from "node:net";

/** The deadlines for a process to start serving, and to exit. */
const startMs = 10_000;
const endMs = 5_000;
const pauseMs = 50;
/** Ticks per second of the kernel's CPU accounting; 100 on all common systems. */
const ticksPerSecond = 100;

/** A server that was started for a benchmark. */
export type Child = {
  readonly pid: number;
  readonly port: number;
  /** CPU seconds that it and its child processes have used so far. */
  cpuSeconds(): number;
  /** Stops it and waits until it has exited. */
  stop(): Promise<void>;
};

/**
 * How to start a server. `core` null: any. `port`: where it will listen; null: it prints `listening
 * <port>`.
 */
export type ChildOptions = {
  readonly core: number | null;
  readonly port: number | null;
  /** Added to this process's environment. */
  readonly environment?: Readonly<Record<string, string>>;
};

/** Starts a server and waits until it listens. */
export async function startChild(
  command: readonly [string, ...string[]],
  { core, port, environment = {} }: ChildOptions,
): Promise<Child> {
  const [program, ...rest] =
    core === null ? command : (["taskset", "-c", String(core), ...command] as const);
  const env = { ...process.env, ...environment };
  const child = spawn(program, rest, { stdio: ["ignore", "pipe", "pipe"], env });
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
  return {
    pid,
    port: listening,
    cpuSeconds: () => cpuSecondsOf(pid),
    stop: () => stopChild(child),
  };
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

/**
 * CPU seconds of a process and its descendants that are running or were waited for. Reads each
 * process once: it is called in measurements.
 */
export function cpuSecondsOf(pid: number): number {
  const stats = new Map<number, Stat>();
  for (const name of readdirSync("/proc")) {
    const stat = /^\d+$/.test(name) ? statOf(Number(name)) : null;
    if (stat !== null) stats.set(Number(name), stat);
  }
  const isBelow = (one: number | undefined): boolean =>
    one !== undefined && (one === pid || isBelow(stats.get(one)?.parent));
  return [...stats].reduce((sum, [one, { seconds }]) => sum + (isBelow(one) ? seconds : 0), 0);
}

/** CPU seconds of a process alone. */
export function ownCpuSecondsOf(pid: number): number {
  return statOf(pid)?.ownSeconds ?? 0;
}

/** CPU seconds of children of a process that have ended and were waited for. */
export function endedCpuSecondsOf(pid: number): number {
  const own = statOf(pid);
  return own === null ? 0 : own.seconds - own.ownSeconds;
}

type Stat = { readonly parent: number; readonly seconds: number; readonly ownSeconds: number };

function statOf(pid: number): Stat | null {
  try {
    // After the name, which is in parentheses: state, parent, …; user and system time are fields 14
    // and 15, those of waited-for children 16 and 17.
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1")
      .replace(/^.*\) /, "")
      .split(" ");
    const seconds = (...indexes: number[]): number =>
      indexes.reduce((sum, index) => sum + Number(fields[index]), 0) / ticksPerSecond;
    return {
      parent: Number(fields[1]),
      seconds: seconds(11, 12, 13, 14),
      ownSeconds: seconds(11, 12),
    };
  } catch {
    // It has exited in the meantime.
    return null;
  }
}
