// The apps' replicas in the simulation, with what the cortex runtime does for held runs. Whoever
// calls them is not asked whether he may: what a replica began is what the promises of the runs are
// measured by.
import type { Address } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { AppId, ReleaseId, ReplicaId, RunId } from "#lib/ids.ts";
import type { HeldId } from "#runs/held-id.ts";
import type { ReadyReplica } from "#scheduler/replica-view.ts";
import type { Seeded } from "#test/support/seeded.ts";
import { tcpAddress } from "#test/support/replica-address.ts";

/** What an app gave as an answer. The body names the call. */
export type AppAnswer = { readonly status: number; readonly body: Buffer };

/** One time that an app began to work on a run. */
export type ReplicaCall = {
  /** From 1, over all calls of all runs. */
  readonly number: number;
  readonly runId: RunId;
  readonly heldId: HeldId;
  readonly replica: SimReplica;
  /** The process of the platform that sent it. */
  readonly sender: string;
  answer: AppAnswer | null;
  /** The function works no more. */
  isOver: boolean;
  /** It was interrupted and goes on all the same. */
  isStubborn: boolean;
  /** The database knows what became of it. */
  isSettled: boolean;
  readonly cancelEnd: () => void;
  readonly listeners: Set<(answer: AppAnswer | null) => void>;
};

/** One replica. */
export type SimReplica = {
  readonly ready: ReadyReplica;
  readonly keepsAnswers: boolean;
  isAlive: boolean;
  readonly held: Map<HeldId, ReplicaCall>;
  /** Runs that were cancelled before they came. */
  readonly withdrawn: Set<HeldId>;
};

/** An app whose replicas they are. */
export type SimApp = {
  readonly appId: AppId;
  readonly releaseId: ReleaseId;
  readonly keepsAnswers: boolean;
  readonly graceMs: number;
};

/** Whose start it is. */
export function runOf(heldId: HeldId): RunId {
  return heldId.slice(0, heldId.indexOf(".")) as RunId;
}

/** What a replica answers to a call whose function was interrupted. */
export const interruptedStatus = 500;

/** All replicas of all apps. */
export class Replicas {
  readonly all: SimReplica[] = [];
  readonly calls: ReplicaCall[] = [];
  /** No app fails or takes long any more. */
  isCalm = false;
  readonly #clock: Clock;
  readonly #seeded: Seeded;

  constructor({ clock, seeded }: { readonly clock: Clock; readonly seeded: Seeded }) {
    this.#clock = clock;
    this.#seeded = seeded;
  }

  add(app: SimApp): SimReplica {
    const number = this.all.length + 1;
    const replica: SimReplica = {
      ready: {
        replicaId: `replica-${number}` as ReplicaId,
        appId: app.appId,
        releaseId: app.releaseId,
        address: { host: "replica", port: number },
        concurrency: 4,
      },
      keepsAnswers: app.keepsAnswers,
      isAlive: true,
      held: new Map(),
      withdrawn: new Set(),
    };
    this.all.push(replica);
    return replica;
  }

  ofApp(appId: AppId): SimReplica[] {
    return this.all.filter((one) => one.isAlive && one.ready.appId === appId);
  }

  byId(replicaId: ReplicaId | null): SimReplica | undefined {
    return this.all.find(({ ready }) => ready.replicaId === replicaId);
  }

  at(address: Address): SimReplica | undefined {
    const replica = this.all[tcpAddress(address).port - 1];
    return replica?.isAlive === true ? replica : undefined;
  }

  callsOf(runId: RunId): ReplicaCall[] {
    return this.calls.filter((one) => one.runId === runId);
  }

  /**
   * A call arrives; null: it was cancelled before. A held run that is known is not begun again, but
   * attached to.
   */
  begin(
    replica: SimReplica,
    of: Pick<ReplicaCall, "runId" | "heldId" | "sender">,
  ): ReplicaCall | null {
    const { heldId } = of;
    if (replica.withdrawn.delete(heldId)) return null;
    const known = replica.held.get(heldId);
    if (known !== undefined) return known;
    const call = this.#new(replica, of);
    if (replica.keepsAnswers) replica.held.set(heldId, call);
    return call;
  }

  /**
   * Tells how the call ends, or has ended; null: without an answer. Returns how to hear no more of
   * it: the function of a held run goes on then, any other ends.
   */
  listen(call: ReplicaCall, onEnd: (answer: AppAnswer | null) => void): () => void {
    if (call.isOver) {
      onEnd(call.answer);
      return () => undefined;
    }
    call.listeners.add(onEnd);
    return () => {
      call.listeners.delete(onEnd);
      if (!call.replica.keepsAnswers) this.end(call, null);
    };
  }

  /** The function's end. */
  end(call: ReplicaCall, answer: AppAnswer | null): void {
    if (call.isOver) return;
    call.isOver = true;
    call.answer = answer;
    call.cancelEnd();
    for (const listener of Array.from(call.listeners)) listener(answer);
    call.listeners.clear();
  }

  /** As a held run is cancelled: its function is interrupted. False: it goes on for a while. */
  interrupt(call: ReplicaCall): boolean {
    if (call.isOver) return true;
    call.isStubborn ||= !this.isCalm && this.#seeded.chance(0.15);
    if (call.isStubborn) return false;
    this.end(call, { status: interruptedStatus, body: Buffer.from(`interrupted ${call.number}`) });
    return true;
  }

  /** Nothing of it is left, and what it worked on has no answer. */
  crash(replica: SimReplica): void {
    replica.isAlive = false;
    for (const call of this.calls) if (call.replica === replica) this.end(call, null);
    replica.held.clear();
  }

  #new(replica: SimReplica, of: Pick<ReplicaCall, "runId" | "heldId" | "sender">): ReplicaCall {
    const seeded = this.#seeded;
    const number = this.calls.length + 1;
    const durationMs =
      seeded.chance(0.15) && !this.isCalm
        ? seeded.integer(4_000, 25_000)
        : seeded.integer(1, 3_000);
    const status = this.isCalm || seeded.chance(0.6) ? 200 : seeded.pick([404, 429, 500, 503]);
    const isBroken = !this.isCalm && seeded.chance(0.08);
    const answer = isBroken ? null : { status, body: Buffer.from(`answer ${number}`) };
    const call: ReplicaCall = {
      number,
      ...of,
      replica,
      answer: null,
      isOver: false,
      isStubborn: false,
      isSettled: false,
      cancelEnd: this.#clock.after(durationMs, () => this.end(call, answer)),
      listeners: new Set(),
    };
    this.calls.push(call);
    return call;
  }
}
