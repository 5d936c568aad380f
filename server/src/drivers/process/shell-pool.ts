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

/**
 * As many shells are prepared as were taken lately, within these bounds. When more replicas start
 * at once than there are shells, each of the others waits for a new shell.
 */
const readyMin = 2;
const readyMax = 10;
/** How long to wait after a start: preparing shells would compete with the app that starts. */
const refillPauseMs = 1000;
/** How long the preparation of one shell may take. */
const prepareTimeoutMs = 10_000;
/** How long a shell may take to end by itself, before it is killed. */
const endWaitMs = 5_000;
/** How much of a shell's error output is logged. */
const complaintCharactersMax = 500;

/** Prepares shells only after the first start, so that a platform without apps has none. */
export class ShellPool {
  readonly base: SandboxBase;
  readonly #options: ShellPoolOptions;
  #ready: Shell[] = [];
  /** The state of the machine's mounts and /etc when the ready shells were made. */
  #machine = "";
  /** How many shells were taken since the last refill began. */
  #takenCount = 0;
  #isClosed = false;
  #refilling: Promise<void> | null = null;
  #cancelRefill: (() => void) | undefined;

  constructor(options: ShellPoolOptions) {
    this.#options = options;
    this.base = options.base;
  }

  /** True when no shell is ready. */
  get isEmpty(): boolean {
    return this.#ready.length === 0;
  }

  /**
   * A shell for one replica. If none is ready, a new one is started, which writes its errors to the
   * file `errorsTo` until it gets its script. Throws when no address is free, or no process can be
   * started.
   */
  take(errorsTo: string): Shell {
    this.#takenCount++;
    this.#cancelRefill?.();
    this.#cancelRefill = this.#options.clock.after(refillPauseMs, () => {
      this.#refilling ??= this.#refill().finally(() => {
        this.#refilling = null;
      });
    });
    this.dropStale();
    // Only a ready shell has a route that another program may have removed.
    const routes = this.isEmpty ? "" : readFileSync("/proc/net/route", "utf8");
    for (;;) {
      const ready = this.#ready.shift();
      if (ready === undefined) break;
      const isReachable = ready.address === null || isRouted(ready.address, routes);
      if (isRunning(ready) && isReachable) return ready;
      void this.end(ready);
    }
    const { shell, script } = this.#spawn("ignore");
    shell.child.stdin.write(`exec 2>>${shellQuoted(errorsTo)}\n${script}`);
    return shell;
  }

  /**
   * Ends the ready shells if the machine's mounts or its /etc have changed since they were made.
   * Their old mounts would keep disks in use.
   */
  dropStale(): void {
    if (this.isEmpty || this.#machine === this.#machineNow()) return;
    for (const shell of this.#ready.splice(0)) void this.end(shell);
  }

  /** Ends the ready shells. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelRefill?.();
    await this.#refilling;
    await Promise.all(this.#ready.splice(0).map((shell) => this.end(shell)));
  }

  /**
   * Ends a shell: one without a script ends by itself, any other is killed after `endWaitMs`.
   * Resolves when it has ended.
   */
  async end(shell: Shell): Promise<void> {
    const { child } = shell;
    child.stdin.end();
    if (!isRunning(shell)) return;
    child.ref();
    const cancelKill = this.#options.clock.after(endWaitMs, () => child.kill("SIGKILL"));
    await once(child, "exit");
    cancelKill();
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

  async #refill(): Promise<void> {
    const { sandbox, log } = this.#options;
    if (sandbox.kind === "none") return;
    const wantedCount = Math.min(Math.max(this.#takenCount, readyMin), readyMax);
    this.#takenCount = 0;
    try {
      while (this.#ready.length < wantedCount && !this.#isClosed) await this.#prepare();
    } catch (error) {
      log.warn(
        { err: error },
        "a sandbox could not be prepared; starts of replicas make their own",
      );
    }
  }

  /** Prepares one shell, and adds it to the ready ones unless the machine has changed meanwhile. */
  async #prepare(): Promise<void> {
    const { shell, script } = this.#spawn("pipe");
    const machine = this.#machine;
    const { child } = shell;
    const ended = once(child, "exit");
    const cancelTimeout = this.#options.clock.after(prepareTimeoutMs, () => child.kill("SIGKILL"));
    child.stdin.write(`exec 2>&1\n${script}exec 2>/dev/null\necho ready\n`);
    const firstOutput = await Promise.race([
      once(child.stdout, "data").then(([data]) => String(data)),
      ended.then(() => ""),
    ]);
    cancelTimeout();
    child.stdout.destroy();
    if (firstOutput !== "ready\n") {
      await this.end(shell);
      throw new Error(`setting it up failed: ${firstOutput.slice(0, complaintCharactersMax)}`);
    }
    if (machine === this.#machine) this.#ready.push(shell);
    else void this.end(shell);
  }
}

function isRunning({ child }: Shell): boolean {
  return child.exitCode === null && child.signalCode === null;
}
