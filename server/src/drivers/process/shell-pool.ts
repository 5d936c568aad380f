// Shells for replicas, each in a sandbox that lacks only the files of its replica. Some are
// prepared in advance, since preparing one takes as long as the rest of a start. A shell waits for
// its script, and ends when the platform ends.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import { StartRefused } from "#drivers/driver.ts";
import { shellQuoted } from "#lib/shell-quoted.ts";
import { etcState, writeEtc } from "./etc-folder.ts";
import { connectNetwork } from "./network-machine.ts";
import { isRouted, type NetworkAddress } from "./network.ts";
import { baseScript, ownNetwork, sandboxShell, type Sandbox } from "./sandbox.ts";
import type { SandboxBase } from "./sandbox-view.ts";
import type { DriverParts } from "#drivers/opened-driver.ts";
import type { Clock } from "#lib/clock.ts";
import { ReadyPool } from "./ready-pool.ts";

/** A shell that waits for the script of one replica (see `runScript`). */
export type Shell = {
  readonly child: ChildProcess & { readonly stdin: Writable; readonly stdout: Readable };
  /** The address of the shell's own network; null: it shares the machine's network. */
  readonly address: NetworkAddress | null;
};

export type ShellPoolOptions = Pick<DriverParts, "clock" | "log"> & {
  readonly sandbox: Sandbox;
  readonly base: SandboxBase;
};

/** How long the preparation of one shell may take. */
const prepareTimeoutMs = 10_000;
/** How long a shell may take to end by itself, before it is killed. */
const endWaitMs = 5_000;
/** How much of a shell's error output is logged. */
const complaintCharactersMax = 500;

/** Hands out shells; see `ReadyPool` for how many are prepared. */
export class ShellPool {
  readonly base: SandboxBase;
  readonly #options: ShellPoolOptions;
  readonly #pool: ReadyPool<Shell>;
  /** The state of the machine's mounts and /etc when the ready shells were made. */
  #machine = "";

  constructor(options: ShellPoolOptions) {
    const { clock, log, base } = options;
    this.#options = options;
    this.base = base;
    this.#pool = new ReadyPool({
      clock,
      log,
      make: () => this.#prepare(),
      isUsable: isReady,
      end: (shell) => this.end(shell),
      failureText: "a sandbox could not be prepared; starts of replicas make their own",
    });
  }

  /** True when no shell is ready. */
  get isEmpty(): boolean {
    return this.#pool.isEmpty;
  }

  /**
   * A shell for one replica. If none is ready, a new one is started, which writes its errors to the
   * file `errorsTo` until it gets its script. Throws when no address is free, or no process can be
   * started.
   */
  take(errorsTo: string): Shell {
    this.dropStale();
    const ready = this.#pool.take();
    if (ready !== null) return ready;
    const { shell, script } = this.#spawn("ignore");
    shell.child.stdin.write(`exec 2>>${shellQuoted(errorsTo)}\n${script}`);
    return shell;
  }

  /**
   * Ends the ready shells if the machine's mounts or its /etc have changed since they were made.
   * Their old mounts would keep disks in use.
   */
  dropStale(): void {
    if (!this.isEmpty && this.#machine !== this.#machineNow()) this.#pool.drop();
  }

  /** Ends the ready shells. */
  async close(): Promise<void> {
    await this.#pool.close();
  }

  /** Ends a shell; see `endShell`. */
  async end(shell: Shell): Promise<void> {
    await endShell(shell, this.#options.clock);
  }

  #machineNow(): string {
    const { sandbox } = this.#options;
    return sandbox.kind === "none"
      ? ""
      : readFileSync("/proc/self/mountinfo", "utf8") + etcState(sandbox);
  }

  /** Starts a shell. The caller must give it the script, which makes the rest of its sandbox. */
  #spawn(stdout: "pipe" | "ignore"): { readonly shell: Shell; readonly script: string } {
    const { sandbox, base } = this.#options;
    const machine = this.#machineNow();
    if (sandbox.kind === "namespaces" && machine !== this.#machine) {
      this.dropStale();
      writeEtc(base.etcDir, sandbox, { isBuild: false });
      this.#machine = machine;
    }
    const network = ownNetwork(sandbox);
    // The replica of the shell is not known yet: its script adds what a web server needs.
    const hasServer = false;
    const connected = network === null ? null : connectNetwork(network, hasServer);
    const { file, args, environment } = sandboxShell(sandbox, network !== null);
    // The last argument has no effect; it shows in lists of processes to which platform the shell
    // belongs.
    const child = spawn(file, [...args, "-s", base.stagingDir], {
      cwd: "/",
      env: environment,
      detached: true,
      stdio: ["pipe", stdout, "ignore"],
    });
    child.on("error", () => undefined);
    // There are no pipes when the process could not be started.
    if (child.pid === undefined)
      throw new StartRefused(
        "The replica could not be started: the machine has no room for another process.",
      );
    const address = connected?.address ?? null;
    const shell: Shell = { child: child as Shell["child"], address };
    // Writing to a shell that has ended fails; its end is noticed elsewhere.
    shell.child.stdin.on("error", () => undefined);
    child.unref();
    return { shell, script: baseScript(sandbox, base, connected?.setup ?? null) };
  }

  /** Prepares one shell; null: the machine has changed meanwhile. */
  async #prepare(): Promise<Shell | null> {
    const { sandbox, clock } = this.#options;
    if (sandbox.kind === "none") throw new Error("without a sandbox, shells are not prepared");
    const { shell, script } = this.#spawn("pipe");
    const machine = this.#machine;
    await untilReady(shell, `exec 2>&1\n${script}exec 2>/dev/null\necho ready\n`, clock);
    if (machine === this.#machine) return shell;
    void this.end(shell);
    return null;
  }
}

/**
 * Writes `input` to a process that was spawned with a pipe for its output, and waits until it
 * prints that it is ready. Rejects with what it printed instead; then it has ended.
 */
export async function untilReady(shell: Shell, input: string, clock: Clock): Promise<void> {
  const { child } = shell;
  const ended = once(child, "exit");
  const cancelTimeout = clock.after(prepareTimeoutMs, () => child.kill("SIGKILL"));
  child.stdin.write(input);
  const firstOutput = await Promise.race([
    once(child.stdout, "data").then(([data]) => String(data)),
    ended.then(() => ""),
  ]);
  cancelTimeout();
  child.stdout.destroy();
  if (firstOutput === "ready\n") return;
  await endShell(shell, clock);
  throw new Error(`setting it up failed: ${firstOutput.slice(0, complaintCharactersMax)}`);
}

/**
 * Ends a process that waits for input: it ends by itself when there is none, or is killed after
 * `endWaitMs`. Resolves when it has ended.
 */
export async function endShell({ child }: Shell, clock: Clock): Promise<void> {
  child.stdin.end();
  if (!isRunning(child)) return;
  child.ref();
  const cancelKill = clock.after(endWaitMs, () => child.kill("SIGKILL"));
  await once(child, "exit");
  cancelKill();
}

/** Whether a prepared process still runs, and its network has the route that it was given. */
export function isReady({ child, address }: Shell): boolean {
  // Another program of the machine may have removed the route.
  const hasRoute = address === null || isRouted(address, readFileSync("/proc/net/route", "utf8"));
  return isRunning(child) && hasRoute;
}

function isRunning(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}
