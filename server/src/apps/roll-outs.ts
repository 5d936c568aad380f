// Roll-outs for the API: read, pause, resume, finish at once, take back.
import type { AuditAction } from "@slipway/contract/words.ts";
import type { By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import { type AppKey, shownAppId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import { recordOfApp } from "./app-audit.ts";
import { noSuchApp } from "./app-store.ts";
import { makeLive } from "./release-store.ts";
import * as store from "./roll-out-store.ts";
import type { Foundation } from "#store/foundation.ts";

/** The orders that a person can give for a roll-out. */
export type RollOutOrder = "pause" | "resume" | "finish" | "cancel";

/** Why the new release ended, when a person has cancelled its roll-out. */
const takenBackReason = "Its roll-out was rolled back.";

/** Roll-outs of apps. */
export class RollOuts {
  readonly #parts: Pick<Foundation, "db" | "clock">;

  constructor(parts: Pick<Foundation, "db" | "clock">) {
    this.#parts = parts;
  }

  /** The latest roll-out of an app. Throws `Fault("not_found")` when there was none. */
  async get(ref: AppKey): Promise<store.RollOutRow> {
    const row = await store.readRollOut(this.#parts.db, ref);
    if (row !== undefined) return row;
    const message = `The app ${shownAppId(ref.appId)} has had no roll-out, or does not exist. Its first release and those deployed while rollOutDurationSeconds is 0 go live at once.`;
    throw new Fault("not_found", message);
  }

  /**
   * Carries out an order. Throws `Fault("not_found")`, or `Fault("conflict")` when the order does
   * not fit the state of the roll-out.
   */
  async order(ref: AppKey, order: RollOutOrder, by: By): Promise<store.RollOutRow> {
    await this.#parts.db.transaction().execute(async (tx) => {
      const rollOut = await store.lockRollOut(tx, ref);
      if (rollOut === undefined) throw noSuchApp(ref.appId);
      if (rollOut === null)
        throw new Fault(
          "conflict",
          `No roll-out of the app ${shownAppId(ref.appId)} is under way.`,
        );
      await carryOut(tx, rollOut, order, this.#parts.clock.now());
      await recordRollOut(tx, rollOut, { action: actions[order], by });
    });
    return await this.get(ref);
  }
}

/** The audit action of each order. */
const actions = {
  pause: "rollout.pause",
  resume: "rollout.resume",
  finish: "rollout.finish",
  cancel: "rollout.take_back",
} as const satisfies Record<RollOutOrder, AuditAction>;

/**
 * Ends a roll-out after its last step, or earlier by the order of a person: the new release takes
 * all calls. The caller holds the lock on the app's row.
 */
export async function finishRollOut(
  tx: Tx,
  { appId, releaseId }: store.CurrentRollOut,
): Promise<void> {
  const endOfOther = { state: "replaced", reason: "A newer release took its place." } as const;
  await makeLive(tx, { appId, releaseId, endOfOther });
}

/** Records an action on a roll-out. */
export async function recordRollOut(
  tx: Tx,
  { projectId, appId, name, releaseId, share }: store.CurrentRollOut,
  event: { readonly action: AuditAction; readonly by: By; readonly reason?: string },
): Promise<void> {
  const { action, by, reason } = event;
  const why = reason === undefined ? {} : { reason: { new: reason } };
  const changes = { releaseId: { new: releaseId }, share: { new: share }, ...why };
  await recordOfApp(tx, { projectId, appId, name, action, by, changes });
}

async function carryOut(
  tx: Tx,
  rollOut: store.CurrentRollOut,
  order: RollOutOrder,
  nowMs: number,
): Promise<void> {
  const { appId, state, share, stepEndsAt, stepLeftMs, durationSeconds, isStopped } = rollOut;
  switch (order) {
    case "pause": {
      if (state === "paused")
        throw new Fault(
          "conflict",
          `The roll-out of the app ${shownAppId(appId)} is already paused.`,
        );
      // The step of a running roll-out always has an end, which the type does not know.
      const leftMs = Math.round(Math.max(0, (stepEndsAt?.getTime() ?? nowMs) - nowMs));
      return await store.moveRollOut(tx, appId, {
        state: "paused",
        share,
        stepEndsAt: null,
        stepLeftMs: leftMs,
      });
    }
    case "resume": {
      if (state === "running")
        throw new Fault("conflict", `The roll-out of the app ${shownAppId(appId)} is not paused.`);
      if (isStopped) {
        const message = `The app ${shownAppId(appId)} is stopped, and without calls its releases cannot be compared: start it first (POST …/apps/{app}/start).`;
        throw new Fault("conflict", message);
      }
      // A paused roll-out always has the rest of its step, which the type does not know.
      const endsAt = new Date(nowMs + (stepLeftMs ?? store.stepMs(durationSeconds)));
      return await store.moveRollOut(tx, appId, {
        state: "running",
        share,
        stepEndsAt: endsAt,
        stepLeftMs: null,
      });
    }
    case "finish":
      return await finishRollOut(tx, rollOut);
    case "cancel":
      return await store.takeBackRollOut(tx, rollOut, { reason: takenBackReason, isWorse: false });
  }
}
