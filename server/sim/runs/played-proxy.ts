// In place of the proxy: runs wait a while in a line, get a place on some replica, are asked about,
// and are sent in the same moment in which that is allowed. What goes wrong on the way is drawn.
import type { Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId, ReplicaId, RunId } from "#lib/ids.ts";
import { heldIdOf, type HeldId } from "#runs/held-id.ts";
import type { RunEnding, RunHandle, RunRequest, RunWatcher } from "#proxy/run-call.ts";
import type { Seeded } from "#test/support/seeded.ts";
import { interruptedStatus, type AppAnswer, type ReplicaCall, type Replicas } from "./replicas.ts";
import type { SimApp, SimReplica } from "./replicas.ts";

export type PlayedProxyOptions = {
  /** The process that it is part of. */
  readonly name: string;
  readonly clock: Clock;
  readonly seeded: Seeded;
  readonly replicas: Replicas;
  readonly appOf: (appId: AppId) => SimApp;
  /** Runs it in the process: later when that stands still, never when it is dead. */
  readonly enter: (run: () => void) => void;
  /** This process has the answer, or the lack of one, of a call. */
  readonly onHeard: (call: ReplicaCall) => void;
  /** The proxy itself ends the call with this fault. */
  readonly onFault: (runId: RunId, code: string) => void;
};

/** One for a process. */
export class PlayedProxy {
  readonly #options: PlayedProxyOptions;
  readonly #open = new Set<PlayedCall>();
  /** Replicas that are held. */
  holds = 0;

  constructor(options: PlayedProxyOptions) {
    this.#options = options;
  }

  /** Calls that are not over. */
  get openCount(): number {
    return this.#open.size;
  }

  run(request: RunRequest, watcher: RunWatcher): RunHandle {
    const call = new PlayedCall(request, watcher, this.#options, () => this.#open.delete(call));
    this.#open.add(call);
    call.wait();
    return call;
  }

  /** The process is dead: its connections close. */
  hangUp(): void {
    for (const call of this.#open) call.hangUp();
  }

  hold(_appId: AppId, _replicaId: ReplicaId): () => void {
    this.holds++;
    let isHeld = true;
    return () => {
      if (isHeld) this.holds--;
      isHeld = false;
    };
  }
}

class PlayedCall implements RunHandle {
  readonly #request: RunRequest;
  readonly #watcher: RunWatcher;
  readonly #options: PlayedProxyOptions;
  readonly #onOver: () => void;
  #leave: () => void = () => undefined;
  #cancelTimer: () => void = () => undefined;
  #isOver = false;
  #wasSent = false;

  constructor(
    request: RunRequest,
    watcher: RunWatcher,
    options: PlayedProxyOptions,
    onOver: () => void,
  ) {
    this.#request = request;
    this.#watcher = watcher;
    this.#options = options;
    this.#onOver = onOver;
  }

  withdraw(): void {
    this.#end({ kind: "withdrawn" });
  }

  hangUp(): void {
    this.#leave();
  }

  wait(): void {
    const { clock, seeded, replicas } = this.#options;
    const waitMs = seeded.chance(0.7) ? seeded.integer(0, 200) : seeded.integer(200, 3_000);
    this.#cancelTimer = clock.after(waitMs, () => {
      const { isCalm } = replicas;
      if (!isCalm && seeded.chance(0.04)) return this.#fail("line_full");
      if (!isCalm && seeded.chance(0.04)) return this.#fail("start_failed");
      const ready = replicas.ofApp(this.#request.appId);
      if (ready.length === 0) return this.#fail("line_timeout");
      void this.#ask(seeded.pick(ready));
    });
  }

  async #ask(replica: SimReplica): Promise<void> {
    const { seeded, replicas } = this.#options;
    const maySend = await this.#watcher.mayStart(replica.ready).catch(() => null);
    if (this.#isOver) return;
    if (maySend === null) return this.#fail("internal");
    if (!maySend) return this.withdraw();
    const isOutOfReach = !replica.isAlive || (!replicas.isCalm && seeded.chance(0.06));
    if (!isOutOfReach) return this.#send(replica);
    const others = replicas.ofApp(this.#request.appId).filter((one) => one !== replica);
    if (others.length > 0 && seeded.chance(0.5)) return void this.#ask(seeded.pick(others));
    this.#fail("replica_failed");
  }

  #send(replica: SimReplica): void {
    const { replicas, name, enter, onHeard, clock, appOf } = this.#options;
    this.#wasSent = true;
    this.#cancelTimer = clock.after(appOf(this.#request.appId).graceMs, () =>
      this.#fail("call_timeout"),
    );
    const call = replicas.begin(replica, { ...idsOf(this.#request), sender: name });
    if (call === null)
      return this.#answered({ status: interruptedStatus, body: Buffer.from("withdrawn") });
    this.#leave = replicas.listen(call, (answer) =>
      enter(() => {
        onHeard(call);
        this.#answered(answer);
      }),
    );
  }

  #answered(answer: AppAnswer | null): void {
    if (answer === null) return this.#fail("replica_failed");
    const { status, body } = answer;
    this.#end({
      kind: "answered",
      status,
      contentType: "text/plain",
      body,
      bodyBytes: body.length,
    });
  }

  #fail(
    code:
      | "line_full"
      | "start_failed"
      | "line_timeout"
      | "internal"
      | "replica_failed"
      | "call_timeout",
  ): void {
    this.#options.onFault(this.#request.runId, code);
    this.#end({
      kind: "failed",
      fault: new Fault(code, `It ended with ${code}.`),
      wasSent: this.#wasSent,
    });
  }

  #end(ending: RunEnding): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#onOver();
    this.#cancelTimer();
    this.#leave();
    queueMicrotask(() => this.#watcher.onEnd(ending));
  }
}

/** A call that is not held is known to nobody. */
function idsOf({ runId, lines }: RunRequest): { readonly runId: RunId; readonly heldId: HeldId } {
  const start = /^Slipway-Held: (\d+)\r$/m.exec(lines)?.[1] ?? "0";
  return { runId, heldId: heldIdOf(runId, Number(start)) };
}
