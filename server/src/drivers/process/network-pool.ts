// Networks for replicas, made before a replica needs one, since that takes as long as much of the rest of a start. Each is
// a network namespace that no process is in: a descriptor of this process keeps it, so that nothing stays after a kill.
import { spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { once } from "node:events";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import { connectNetwork, type ConnectedNetwork } from "./network-machine.ts";
import { isRouted, redirectToLoopback, type NetworkAddress, type OwnNetwork } from "./network.ts";
import { sandboxFailedCode, toolsEnvironment } from "./sandbox.ts";

/** `descriptor`: of its namespace, which the caller closes; undefined: `setup` connects a new one. */
export type PreparedNetwork = ConnectedNetwork & { readonly descriptor?: number };

type Ready = { readonly place: NetworkAddress; readonly descriptor: number };

/** A burst of more starts makes the rest itself. */
const readyMax = 4;
/** After the last start, so as not to compete with the app. */
const refillPauseMs = 1000;
const prepareTimeoutMs = 10_000;

/** Prepares the first ones after the first start: a platform without apps makes none. */
export class NetworkPool {
  readonly #options: { readonly network: OwnNetwork; readonly clock: Clock; readonly log: Log };
  readonly #ready: Ready[] = [];
  #isClosed = false;
  #refilling: Promise<void> | null = null;
  #cancelRefill: (() => void) | undefined;

  constructor(options: { readonly network: OwnNetwork; readonly clock: Clock; readonly log: Log }) {
    this.#options = options;
  }

  /** True when no network is ready. */
  get isEmpty(): boolean {
    return this.#ready.length === 0;
  }

  /** A network for a replica; `hasServer` as for `connectNetwork`. Throws when no address is free. */
  take(hasServer: boolean): PreparedNetwork {
    const { network, clock } = this.#options;
    this.#cancelRefill?.();
    this.#cancelRefill = clock.after(refillPauseMs, () => {
      this.#refilling ??= this.#refill().finally(() => (this.#refilling = null));
    });
    const ready = this.#next();
    if (ready === undefined) return connectNetwork(network, hasServer);
    return { ...ready, setup: hasServer ? redirectToLoopback(ready.place, sandboxFailedCode) : "" };
  }

  /** Gives the ready ones back. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#cancelRefill?.();
    await this.#refilling;
    for (const { descriptor } of this.#ready.splice(0)) closeSync(descriptor);
  }

  /** The next one whose cable is still there. */
  #next(): Ready | undefined {
    for (let ready = this.#ready.shift(); ready !== undefined; ready = this.#ready.shift()) {
      if (isRouted(ready.place, readFileSync("/proc/net/route", "utf8"))) return ready;
      closeSync(ready.descriptor);
    }
    return undefined;
  }

  async #refill(): Promise<void> {
    const { network, log } = this.#options;
    try {
      while (this.#ready.length < readyMax && !this.#isClosed) this.#ready.push(await prepare(network));
    } catch (error) {
      log.warn({ err: error }, "a network could not be prepared; starts of replicas make their own");
    }
  }
}

/** Its shell stays until the descriptor is open, and ends with this process. */
async function prepare(network: OwnNetwork): Promise<Ready> {
  const { place, setup } = connectNetwork(network, false);
  const child = spawn("unshare", ["--net", "sh", "-c", `${setup}echo ready\nread -r end`], {
    ...{ env: toolsEnvironment, stdio: ["pipe", "pipe", "ignore"], timeout: prepareTimeoutMs },
  });
  child.stdin.on("error", () => undefined);
  const ended = once(child, "exit");
  try {
    const isReady = await Promise.race([once(child.stdout, "data"), ended.then(() => null)]);
    if (isReady === null) throw new Error(`setting it up ended with ${child.exitCode ?? child.signalCode}`);
    return { place, descriptor: openSync(`/proc/${child.pid}/ns/net`, "r") };
  } finally {
    child.stdin.end();
    await ended;
    child.stdout.destroy();
  }
}
