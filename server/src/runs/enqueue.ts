// Accepts calls with `async=true`: reads the body, commits one row in a group with concurrent
// calls, and only then answers 202. If capacity allows, this platform starts the run right away,
// without reading it back.
import { createHash } from "node:crypto";
import { Batcher, BatcherFull } from "#lib/batcher.ts";
import { Fault } from "#lib/fault.ts";
import { Gate } from "#lib/gate.ts";
import type { ProjectId, RunId } from "#lib/ids.ts";
import { isDiskFull, diskFullRetrySeconds, diskFullText } from "#lib/disk-full.ts";
import { withDeadline } from "#lib/with-deadline.ts";
import type { AsyncAccept, AsyncCall } from "#proxy/async-accept.ts";
import type { Foundation } from "#store/foundation.ts";
import { keyHours, readRunKey, takeRunKey } from "./run-key-store.ts";
import type { OnRunStep } from "./run-steps.ts";
import type { NewRun, RunStore } from "./run-store.ts";
import type { Runner } from "./runner.ts";
import { callSecretContext } from "./settlement.ts";

export type EnqueueOptions = Pick<Foundation, "db" | "sealer" | "clock" | "log"> & {
  readonly store: RunStore;
  readonly runner: Pick<Runner, "reserve" | "unreserve" | "take" | "nudge">;
  readonly bodyBytesMax: number;
  /**
   * Returns the key for both gates. All projects of a person have one key, and share the slots of
   * that key.
   */
  readonly ownerKeyOf: (projectId: ProjectId) => Promise<string>;
  readonly onStep: OnRunStep;
  /** Why nothing new can be stored when the disk is full; null: there is space. */
  readonly storeRefusal: () => string | null;
};

/** How many runs may wait to be stored; further calls are refused. */
const waitingMax = 20_000;
/** How many bytes the bodies of the waiting runs may have together. */
const waitingBytesMax = 256 * 1_048_576;
/** How many runs one statement stores at most. */
const batchMax = 500;
/** How many bytes the bodies of the runs in one statement may have together. */
const batchBytesMax = 16 * 1_048_576;
/** Bodies up to this size are read without waiting for others. */
const smallBodyBytes = 65_536;
/** How many larger bodies may be in memory at once, from their first byte until they are stored. */
const largeBodiesAtOnce = 16;
/**
 * How many calls with an Idempotency-Key are stored at once. Each takes a database connection for
 * its own transaction; the other connections serve everything else.
 */
const keyedAtOnce = 6;
/**
 * The limits of both gates. A call is refused at once when `waitingMax` calls wait, or
 * `keyWaitingMax` of its own key. With `half`, a key without competitors gets half of the slots.
 */
const gateLimits = {
  keyMax: "half",
  waitingMax: 2_000,
  keyWaitingMax: 1_000,
  refusal: busy,
} as const;
/**
 * How long a call with a large body waits for a slot. In this time, calls that hold a slot end if
 * their clients send nothing: `proxy/whole-body.ts` gives such a client 30 s.
 */
const waitMs = 60_000;
/** A database that takes longer than this to store a run counts as unavailable. */
const storeMs = 10_000;
/** How many seconds callers are told to wait before they try again. The number is a guess. */
const retryAfterSeconds = 5;

const tooMany = "Too many async calls are being accepted at the moment; try again.";
/** The caller cannot know whether the run was stored: a retry with an Idempotency-Key is safe. */
const notStored =
  "The run could not be stored, because the database is not responding; try again (an Idempotency-Key makes sure that it runs once).";

/** Accepts async calls; one per platform. */
export class Enqueue implements AsyncAccept {
  /** New runs since the platform started. */
  acceptedTotal = 0;
  readonly #options: EnqueueOptions;
  readonly #inserts: Batcher<NewRun>;
  readonly #largeBodies: Gate;
  readonly #keyed: Gate;

  constructor(options: EnqueueOptions) {
    this.#options = options;
    const { clock, onStep, store } = options;
    this.#largeBodies = new Gate({ ...gateLimits, max: largeBodiesAtOnce });
    this.#keyed = new Gate({ ...gateLimits, max: keyedAtOnce });
    this.#inserts = new Batcher({
      write: async (runs) => {
        await store.insert(runs);
        onStep("run accepted");
      },
      weigh: (run) => run.body.length,
      batchMax,
      queueMax: waitingMax,
      batchWeightMax: batchBytesMax,
      queueWeightMax: waitingBytesMax,
      writeWaitMs: storeMs,
      clock,
    });
  }

  accept(call: AsyncCall): void {
    const { log, storeRefusal } = this.#options;
    const refusal = storeRefusal();
    if (refusal !== null) return call.refuse(fullDisk(refusal));
    this.#acceptInTurn(call).catch((error: unknown) => {
      if (error instanceof Fault) return call.refuse(error);
      if (error instanceof BatcherFull) return call.refuse(busy());
      log.error({ err: error, runId: call.runId }, "a run could not be accepted");
      call.refuse(notStoredFor(error));
    });
  }

  /** Resolves when every accepted call is stored. */
  async stop(): Promise<void> {
    await this.#inserts.stop();
  }

  /** Accepts the call, after a wait for a slot unless its body is small. */
  async #acceptInTurn(call: AsyncCall): Promise<void> {
    // -1 stands for an unknown length, of a body that comes in chunks.
    const hasKnownLength = call.contentLength !== -1;
    const isSmall = hasKnownLength && call.contentLength <= smallBodyBytes;
    if (isSmall) return await this.#accept(call);
    const { clock, ownerKeyOf } = this.#options;
    await this.#largeBodies.run(() => this.#accept(call), {
      key: await ownerKeyOf(call.route.projectId),
      deadline: { waitMs, clock },
    });
  }

  async #accept(call: AsyncCall): Promise<void> {
    const body = await call.readBody(this.#options.bodyBytesMax);
    if (body instanceof Fault) throw body;
    const { runner, clock } = this.#options;
    const isHeld = runner.reserve(call.route.appId, body.length);
    const run = this.#runOf(call, body, isHeld);
    let runId: RunId;
    try {
      if (call.idempotencyKey === null) runId = await this.#insert(run);
      else runId = await this.#insertOnce(run, call.idempotencyKey);
    } catch (error) {
      if (isHeld) runner.unreserve(run.appId, body.length);
      throw error;
    }
    const isNew = runId === run.runId;
    if (isHeld && !isNew) runner.unreserve(run.appId, body.length);
    call.accepted(runId);
    if (!isNew) return;
    this.acceptedTotal++;
    // The store gives a held run its first lease, whose epoch is 1.
    if (isHeld) runner.take({ ...run, epoch: 1, attempt: 0, starts: 0, waitsSinceMs: clock.now() });
    else runner.nudge(run.appId);
  }

  async #insert(run: NewRun): Promise<RunId> {
    await this.#inserts.add(run);
    return run.runId;
  }

  async #insertOnce(run: NewRun, key: string): Promise<RunId> {
    const { clock, ownerKeyOf } = this.#options;
    return await this.#keyed.run(() => withDeadline(clock, storeMs, this.#insertKeyed(run, key)), {
      key: await ownerKeyOf(run.projectId),
      deadline: { waitMs: storeMs, clock },
    });
  }

  /** Returns the id of the run with this key: this run, or an earlier run of the same request. */
  async #insertKeyed(run: NewRun, key: string): Promise<RunId> {
    const { db, store, onStep } = this.#options;
    const hash = hashOf(run);
    const runId = await db.transaction().execute(async (tx) => {
      if (await takeRunKey(tx, { run, key, hash })) {
        await store.insert([run], tx);
        return run.runId;
      }
      const earlier = await readRunKey(tx, run.appId, key);
      if (!earlier.hash.equals(hash)) throw keyReused(earlier.runId);
      return earlier.runId;
    });
    onStep("run accepted");
    return runId;
  }

  #runOf(call: AsyncCall, body: Buffer, isHeld: boolean): NewRun {
    const { runId, route, method, path, lines, clientAddress, webhookEndpoint, webhookSecret } =
      call;
    const { live } = route;
    if (live === null) throw new Fault("not_deployed", `${route.appName} has no release.`);
    const context = callSecretContext(route.appId);
    return {
      runId,
      method,
      lines,
      body,
      clientAddress,
      webhookEndpoint,
      isHeld,
      projectId: route.projectId,
      appId: route.appId,
      releaseId: live.releaseId,
      target: path,
      retriesMax: call.retries ?? live.settings.retries,
      webhookSecretSealed:
        webhookSecret === null ? null : this.#options.sealer.seal(webhookSecret, context),
    };
  }
}

function busy(): Fault {
  return new Fault("unavailable", tooMany, { retryAfterSeconds });
}

function notStoredFor(error: unknown): Fault {
  if (isDiskFull(error)) return fullDisk(diskFullText, error);
  return new Fault("unavailable", notStored, { cause: error, retryAfterSeconds });
}

function fullDisk(message: string, cause?: unknown): Fault {
  return new Fault("unavailable", message, { cause, retryAfterSeconds: diskFullRetrySeconds });
}

/** A hash of everything by which a repeated request is recognized. */
function hashOf({ method, target, webhookEndpoint, body }: NewRun): Buffer {
  const head = JSON.stringify([method, target, webhookEndpoint]);
  // JSON contains no null byte, so the byte shows where the body begins.
  return createHash("sha256").update(head).update("\0").update(body).digest();
}

function keyReused(runId: RunId): Fault {
  const message = `This Idempotency-Key was used within ${keyHours} hours for a request with another method, path, body or webhookEndpoint; its run is ${runId}.`;
  return new Fault("key_reused", message);
}
