// Processes that start replicas from zygotes (scripts/attach.py): each waits for one request, makes
// the replica's sandbox, and then stays as the parent that knows how the replica's first process
// ends.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { StartRefused } from "#drivers/driver.ts";
import { toolsEnvironment } from "#drivers/short-command.ts";
import { ownFiles } from "#lib/own-files.ts";
import { join } from "node:path";
import type { ForkMount } from "./fork-mounts.ts";
import { connectNetwork } from "./network-machine.ts";
import { ReadyPool } from "./ready-pool.ts";
import { ownNetwork } from "./sandbox.ts";
import { endShell, isReady, untilReady, type Shell, type ShellPoolOptions } from "./shell-pool.ts";

/** The request to scripts/attach.py. */
export type AttachRequest = {
  /** The replica's folder. */
  readonly folder: string;
  /** The zygote's socket, as the machine sees it. */
  readonly socket: string;
  /** What the zygote gets; see runtimes/python/README.md. */
  readonly start: {
    /** The flags of clone(2) for the replica's first process. */
    readonly namespaces: number;
    /** The variables that distinguish the replica from its zygote. */
    readonly environment: Readonly<Record<string, string>>;
    readonly cwd: string;
  };
  readonly cgroupFiles: readonly string[];
  /** The cable that the attacher has prepared; null: the replica has no network of its own. */
  readonly network: {
    /** Lines of `ip -batch` that set up its end in the replica's network. */
    readonly link: string;
    /** Shell lines with further rules, executed in the replica's network; empty: none. */
    readonly rules: string;
  } | null;
  readonly mounts: readonly ForkMount[];
  /** The file `enter` by which further programs enter the sandbox, in a file system of its own. */
  readonly entry: { readonly folder: string; readonly text: string };
};

/** A Python of the machine, in the folders that every sandbox shows. */
export const machinePython = "/usr/bin/python3";

/** The text of scripts/confine.py, which starts a zygote. */
export function confineScript(): string {
  return readFileSync(join(ownFiles.zygoteScripts, "confine.py"), "utf8");
}

/** Hands out processes that wait for their request on standard input. */
export class Attachers {
  readonly #options: Pick<ShellPoolOptions, "sandbox" | "clock" | "log">;
  readonly #pool: ReadyPool<Shell>;

  constructor(options: Pick<ShellPoolOptions, "sandbox" | "clock" | "log">) {
    const { clock, log } = options;
    this.#options = options;
    this.#pool = new ReadyPool({
      clock,
      log,
      make: () => this.#prepare(),
      isUsable: isReady,
      end: (attacher) => endShell(attacher, clock),
      failureText: "a start from a zygote could not be prepared; it will take a little longer",
    });
  }

  get isEmpty(): boolean {
    return this.#pool.isEmpty;
  }

  /** Throws when no address is free, or no process can be started. */
  take(): Shell {
    const ready = this.#pool.take();
    if (ready !== null) return ready;
    const { attacher, preparation } = this.#spawn("ignore");
    attacher.child.stdin.write(preparation);
    return attacher;
  }

  /** Ends those that are ready. */
  async close(): Promise<void> {
    await this.#pool.close();
  }

  async #prepare(): Promise<Shell> {
    const { attacher, preparation } = this.#spawn("pipe");
    await untilReady(attacher, preparation, this.#options.clock);
    return attacher;
  }

  /** Starts a process, which must first be told what to prepare. */
  #spawn(stdout: "pipe" | "ignore"): { readonly attacher: Shell; readonly preparation: string } {
    const network = ownNetwork(this.#options.sandbox);
    // Cortex apps listen on a socket in the file system.
    const hasServer = false;
    const connected = network === null ? null : connectNetwork(network, hasServer);
    const child = spawn(machinePython, ["-I", "-S", join(ownFiles.zygoteScripts, "attach.py")], {
      cwd: "/",
      env: toolsEnvironment,
      detached: true,
      stdio: ["pipe", stdout, "ignore"],
    });
    child.on("error", () => undefined);
    if (child.pid === undefined)
      throw new StartRefused(
        "The replica could not be started: the machine has no room for another process.",
      );
    const attacher: Shell = {
      child: child as Shell["child"],
      address: connected?.address ?? null,
    };
    // Writing to a process that has ended fails; its end is noticed elsewhere.
    attacher.child.stdin.on("error", () => undefined);
    child.unref();
    const preparation = { network: connected?.setup ?? "" };
    return { attacher, preparation: `${JSON.stringify(preparation)}\n` };
  }
}
