// Shells for replicas, each in a sandbox that is complete but for what is the replica's own. Some
// are made before a replica needs one, since that takes as long as the rest of a start. A shell
// waits for its script, and ends when the platform does.
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
  /** Null: it shares the machine's network. */
  readonly address: NetworkAddress | null;
};

export type ShellPoolOptions = Pick<DriverParts, "clock" | "log"> & {
  readonly sandbox: Sandbox;
  readonly base: SandboxBase;
};

/**
 * As many are prepared as were taken last, within these bounds; a burst of more starts makes the
 * rest itself.
 */
const readyMin = 2;
const readyMax = 10;
/** After the last start, so as not to compete with the app. */
const refillPauseMs = 1000;
const prepareTimeoutMs = 10_000;
const endWaitMs = 5_000;
const complaintCharactersMax = 500;

/** Prepares the first ones after the first start: a platform without apps makes none. */
export class ShellPool {
  readonly base: SandboxBase;
  readonly #options: ShellPoolOptions;
  #ready: Shell[] = [];
  /** The machine's mounts and /etc when the ready ones were made. */
  #machine = "";
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
   * A shell for one replica; it writes errors before its script to `errorsTo`. Throws when no
   * address is free, or no process can be started.
   */
  take(errorsTo: string): Shell {
    this.#takenCount++;
    this.#cancelRefill?.();
    this.#cancelRefill = this.#options.clock.after(refillPauseMs, () => {
      this.#refilling ??= this.#refill().finally(() => (this.#refilling = null));
    });
    this.dropStale();
    const routes = this.isEmpty ? "" : readFileSync("/proc/net/route", "utf8");
    for (let shell = this.#ready.shift(); shell !== undefined; shell = this.#ready.shift()) {
      if (isRunning(shell) && (shell.address === null || isRouted(shell.address, routes)))
        return shell;
      void this.end(shell);
    }
    const { shell, script } = this.#spawn("ignore");
    shell.child.stdin.write(`exec 2>>${shellQuoted(errorsTo)}\n${script}`);
    return shell;
  }

  /**
   * Ends ready ones that show mounts of the machine, or an /etc, which are not there any more: they
   * would keep disks in use.
   */
  dropStale(): void {
    if (this.isEmpty || this.#machine === this.#machineNow()) return;
    for (const shell of this.#ready.splice(0)) void this.end(shell);
  }

  /** Ends the ready ones. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelRefill?.();
    await this.#refilling;
    await Promise.all(this.#ready.splice(0).map((shell) => this.end(shell)));
  }

  /** Ends a shell that got no script; resolves when it has ended. */
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

  /** With the base for it to execute. */
  #spawn(stdout: "pipe" | "ignore"): { readonly shell: Shell; readonly script: string } {
    const { sandbox, base } = this.#options;
    const machine = this.#machineNow();
    if (sandbox.kind === "namespaces" && machine !== this.#machine) {
      this.dropStale();
      writeEtc(base.etcDir, sandbox, { isBuild: false });
      this.#machine = machine;
    }
    const network = ownNetwork(sandbox);
    const connected = network && connectNetwork(network, false);
    const { file, args, environment } = sandboxShell(sandbox, network !== null);
    // The name of the folder tells whoever lists processes whose shell it is.
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
    // A shell that has ended takes no script; its end is what tells.
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
