// Route handlers that read, follow live, pause, resume, finish and cancel roll-outs.
import { Fault } from "#lib/fault.ts";
import type { z } from "zod";
import type { rollOut } from "@slipway/contract/roll-out-answers.ts";
import type { RollOutOrder } from "#apps/roll-outs.ts";
import type { RollOutRow } from "#apps/roll-out-store.ts";
import type { Conditions, ReleaseCondition } from "#deploy/worse.ts";
import { appOf, refOf, type ApiCall, type Handler, type Handlers } from "./call.ts";
import { streamEvents, wantsEvents } from "./event-stream.ts";
import type { HandlerParts } from "./parts.ts";

type Answer = z.infer<typeof rollOut>;

/** How often a followed roll-out is read again. */
const readEveryMs = 500;

/** Route handlers for roll-outs. A followed roll-out takes over its connection. */
export function rollOutHandlers(parts: HandlerParts) {
  const { rollOuts, conditionsOf } = parts;
  const answerOf = (call: ApiCall, row: RollOutRow): Answer => {
    const { release_id: next, from_release_id: old } = row;
    return show(row, conditionsOf(appOf(call), { old, next }));
  };
  const read = async (call: ApiCall): Promise<Answer> =>
    answerOf(call, await rollOuts.get(refOf(call)));
  function ordered(order: RollOutOrder): Handler {
    return async (call) => answerOf(call, await rollOuts.order(refOf(call), order, call.by));
  }
  return {
    async getRollOut(call) {
      // The roll-out is also read before it is followed, so that a missing one is refused.
      const answer = await read(call);
      return wantsEvents(call) ? await follow(call, parts, () => read(call)) : answer;
    },
    pauseRollOut: ordered("pause"),
    resumeRollOut: ordered("resume"),
    finishRollOut: ordered("finish"),
    cancelRollOut: ordered("cancel"),
  } satisfies Handlers;
}

async function follow(
  call: ApiCall,
  parts: HandlerParts,
  read: () => Promise<Answer>,
): Promise<undefined> {
  return await streamEvents(call, parts, async (send, signal) => {
    // The text that was sent last; empty: none was sent yet.
    let last = "";
    for (;;) {
      await call.admit();
      const answer = await read().catch((error: unknown) => {
        // The roll-out was deleted after its state had been sent at least once.
        if (error instanceof Fault && error.code === "not_found" && last !== "") return null;
        throw error;
      });
      if (answer === null) return await send(`event: end\ndata: ${last}\n\n`);
      const text = JSON.stringify(answer);
      if (text !== last) await send(`data: ${text}\n\n`);
      if (answer.endedAt !== null) return await send(`event: end\ndata: ${text}\n\n`);
      last = text;
      await parts.clock.sleep(readEveryMs, signal);
    }
  });
}

function show(row: RollOutRow, { old, next, weight }: Conditions): Answer {
  return {
    state: row.state,
    release: row.number,
    fromRelease: row.from_number,
    share: row.share,
    currentShare: Math.round(weight * 100),
    durationSeconds: row.duration_seconds,
    calls: { release: callsOf(next), fromRelease: callsOf(old) },
    startedAt: row.started_at.toISOString(),
    nextStepAt: row.step_ends_at?.toISOString() ?? null,
    endedAt: row.ended_at?.toISOString() ?? null,
    reason: row.reason,
  };
}

function callsOf({ calls, failures }: ReleaseCondition): Answer["calls"]["release"] {
  return { calls, failures };
}
