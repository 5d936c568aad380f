// Passes on calls with `async=true`, which are answered before they run. The proxy only declares
// the interface; the runs area implements it, and `platform.ts` connects the two.
import type { AppRoute } from "#apps/routes.ts";
import type { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import { asyncTooLarge } from "./call-faults.ts";
import type { HttpClient } from "./client.ts";
import type { PlatformFields } from "./platform-fields.ts";
import { acceptanceOf } from "./refusal.ts";
import type { RequestFields } from "./request-fields.ts";

type AboutCall = {
  readonly runId: RunId;
  readonly route: AppRoute;
  /** The path for the replica, including the query, without the platform's own parameters. */
  readonly path: string;
  readonly clientAddress: string;
  /** Decoded and checked; null: none. */
  readonly webhookEndpoint: string | null;
};

/**
 * An admitted call to an app with a live release; its fields and parameters are checked. `lines`
 * are the header lines that the replica would get for a plain call, except framing, the call's id,
 * the platform's token and the fields that the platform has read.
 */
export type AsyncCall = AboutCall &
  PlatformFields & {
    readonly method: string;
    /** Body length in bytes as the client announces it; -1: unknown. */
    readonly contentLength: number;
    /**
     * Reads the body, once. A fault when it exceeds `bytesMax`, breaks off or arrives too slowly.
     * Never rejects.
     */
    readBody(bytesMax: number): Promise<Buffer | Fault>;
    /**
     * Answers 202 with the id of the call's run, or of an earlier run with the same idempotency
     * key. Only the first call of `accepted` or `refuse` answers; the client may be gone.
     */
    accepted(runId: RunId): void;
    refuse(fault: Fault): void;
  };

/** Answers every call: with 202 once its run is guaranteed, else with a fault. */
export interface AsyncAccept {
  accept(call: AsyncCall): void;
}

/** The inputs of an async call. */
export type AsyncCallParts = {
  readonly client: HttpClient;
  readonly fields: RequestFields;
  readonly platformFields: PlatformFields;
  readonly monotonicMs: () => number;
};

/** Makes a call that answers its client once, and ignores further answers. */
export function asyncCall(
  about: AboutCall,
  { client, fields, platformFields, monotonicMs }: AsyncCallParts,
): AsyncCall {
  // A request without a length that is not chunked has no body.
  const contentLength = fields.isChunked ? -1 : Math.max(0, fields.contentLength);
  let isAnswered = false;
  /** Claims the call's only answer; true the first time, if the client is still connected. */
  const claimAnswer = (): boolean => {
    const isFirst = !isAnswered;
    isAnswered = true;
    return isFirst && !client.isGone;
  };
  return {
    ...about,
    ...platformFields,
    method: client.method,
    contentLength,
    readBody: (bytesMax) => {
      if (contentLength > bytesMax) return Promise.resolve(asyncTooLarge(bytesMax));
      if (contentLength === 0) return Promise.resolve(Buffer.alloc(0));
      return client.readBody(bytesMax, monotonicMs());
    },
    accepted: (runId) => {
      if (claimAnswer()) client.answer(acceptanceOf(runId));
    },
    refuse: (fault) => {
      if (claimAnswer()) client.refuse(fault, about.runId, monotonicMs());
    },
  };
}
