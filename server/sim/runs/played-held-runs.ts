// In place of `HeldRuns`: the same questions to the simulated replicas, which take a while, and
// whose answers get lost with the process that asked.
import type { Address } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { HeldId } from "#runs/held-id.ts";
import type { Attached, HeldRuns } from "#runs/held-runs.ts";
import type { Seeded } from "#test/support/seeded.ts";
import type { AppAnswer, ReplicaCall, Replicas } from "./replicas.ts";

export type PlayedHeldRunsOptions = {
  readonly clock: Clock;
  readonly seeded: Seeded;
  readonly replicas: Replicas;
  readonly enter: (run: () => void) => void;
  readonly onHeard: (call: ReplicaCall) => void;
  /** The answer cannot be had, and the process was told so. */
  readonly onLost: (heldId: HeldId) => void;
  /** A replica is told that it may forget the call. */
  readonly onAcknowledged: (call: ReplicaCall) => void;
};

/** How long acknowledgements are gathered. */
const gatherMs = 200;
const stopMs = 5_000;

/** One for a process. */
export class PlayedHeldRuns implements Pick<
  HeldRuns,
  "attach" | "acknowledge" | "cancel" | "close"
> {
  readonly #options: PlayedHeldRunsOptions;
  /** How to leave the replicas that are waited for. */
  readonly #waiting = new Set<() => void>();

  constructor(options: PlayedHeldRunsOptions) {
    this.#options = options;
  }

  attach(
    address: Address,
    heldId: HeldId,
    {
      signal,
      waitMs,
    }: { readonly signal: AbortSignal; readonly bytesMax: number; readonly waitMs: number },
  ): Promise<Attached> {
    const { clock, seeded, replicas, enter, onHeard, onLost } = this.#options;
    return new Promise((resolve) => {
      let isDone = false;
      let leave = (): void => undefined;
      const end = (attached: Attached): void => {
        if (isDone) return;
        isDone = true;
        leave();
        this.#waiting.delete(leave);
        if (attached.kind === "lost") onLost(heldId);
        resolve(attached);
      };
      const lost = (reason: string): void => end({ kind: "lost", reason });
      const ended = (call: ReplicaCall, answer: AppAnswer | null): void => {
        onHeard(call);
        if (answer === null) return lost("the replica's answer broke off");
        const { status, body } = answer;
        end({ kind: "answered", status, contentType: "text/plain", body, bodyBytes: body.length });
      };
      signal.addEventListener(
        "abort",
        () => lost("nobody waits for the replica's answer any more"),
        { once: true },
      );
      clock.after(waitMs, () => lost("the replica did not answer in time"));
      clock.after(seeded.integer(1, 50), () => {
        if (isDone) return;
        const replica = replicas.at(address);
        if (replica === undefined) return lost("the replica could not be asked");
        const call = replica.held.get(heldId);
        if (call === undefined) return end({ kind: "unknown", hasForgotten: false });
        leave = replicas.listen(call, (answer) => enter(() => ended(call, answer)));
        this.#waiting.add(leave);
      });
    });
  }

  acknowledge(address: Address, heldId: HeldId): void {
    const { clock, seeded, replicas, onAcknowledged } = this.#options;
    const call = replicas.at(address)?.held.get(heldId);
    if (call !== undefined) onAcknowledged(call);
    clock.after(seeded.integer(1, gatherMs), () => {
      const replica = replicas.at(address);
      const known = replica?.held.get(heldId);
      if (
        replica === undefined ||
        known === undefined ||
        (!known.isOver && known.listeners.size > 0)
      )
        return;
      replica.held.delete(heldId);
      replicas.end(known, null);
    });
  }

  cancel(address: Address, heldId: HeldId): Promise<"stopped" | "running" | "unknown"> {
    const { clock, seeded, replicas } = this.#options;
    return new Promise((resolve) => {
      clock.after(seeded.integer(1, 50), () => {
        const replica = replicas.at(address);
        const call = replica?.held.get(heldId);
        if (replica !== undefined && call === undefined) replica.withdrawn.add(heldId);
        if (call === undefined) return resolve("unknown");
        if (replicas.interrupt(call)) return resolve("stopped");
        clock.after(stopMs, () => resolve(call.isOver ? "stopped" : "running"));
      });
    });
  }

  /** The process is dead: its connections close. */
  hangUp(): void {
    for (const leave of this.#waiting) leave();
  }

  close(): Promise<void> {
    this.hangUp();
    return Promise.resolve();
  }
}
