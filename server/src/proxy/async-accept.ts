// Calls with `async=true`, which are answered before they run, as whoever keeps runs takes them over. The proxy only declares
// who that is: whoever keeps runs implements it, and the assembler connects both.
import type { AppRoute } from "#apps/routes.ts";
import type { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import { asyncTooLarge } from "./call-faults.ts";
import type { HttpClient } from "./client.ts";
import type { PlatformFields } from "./platform-fields.ts";
import type { RequestFields } from "./request-fields.ts";

type Asked = {
  readonly runId: RunId;
  readonly route: AppRoute;
  /** What the replica is to be asked for, query included, without the platform's own parameters. */
  readonly path: string;
  readonly clientAddress: string;
  /** Decoded and checked; null: none. */
  readonly webhookEndpoint: string | null;
};

/**
 * A call that the gate has let pass, of an app with a live release; its fields and parameters are checked. `lines` are those
 * that the replica would get of a plain call, without framing, the call's id, the platform's token and the own fields.
 */
export type AsyncCall = Asked &
  PlatformFields & {
    readonly method: string;
    /** Bytes of the body as the client tells; -1: it does not tell. */
    readonly contentLength: number;
    /** Reads the body, once. A fault when it is longer than `bytesMax`, breaks off, or comes too slowly. Never rejects. */
    readBody(bytesMax: number): Promise<Buffer | Fault>;
    /** Answers 202 with the run's id, which may be an earlier one's. The first of this and `refuse` counts; a client that has gone is fine. */
    accepted(runId: RunId): void;
    refuse(fault: Fault): void;
  };

/** Answers the call, whatever happens: 202 once it is sure to be run. */
export interface AsyncAccept {
  accept(call: AsyncCall): void;
}

/** What an async call is made of. */
export type AsyncCallParts = {
  readonly client: HttpClient;
  readonly fields: RequestFields;
  readonly own: PlatformFields;
  readonly monotonicMs: () => number;
};

/** The call of a client; it is answered once. */
export function asyncCall(asked: Asked, { client, fields, own, monotonicMs }: AsyncCallParts): AsyncCall {
  const contentLength = fields.isChunked ? -1 : Math.max(0, fields.contentLength);
  let isAnswered = false;
  const answers = (): boolean => {
    const isFirst = !isAnswered;
    isAnswered = true;
    return isFirst && !client.isGone;
  };
  return {
    ...asked,
    ...own,
    method: client.method,
    contentLength,
    readBody: (bytesMax) => {
      if (contentLength > bytesMax) return Promise.resolve(asyncTooLarge(bytesMax));
      if (contentLength === 0) return Promise.resolve(Buffer.alloc(0));
      return client.readBody(bytesMax, monotonicMs());
    },
    accepted: (runId) => {
      if (answers()) client.accept(runId);
    },
    refuse: (fault) => {
      if (answers()) client.refuse(fault, asked.runId, monotonicMs());
    },
  };
}
