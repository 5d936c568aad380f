// What takes over calls with `async=true`, which are answered before they run. The proxy only declares it: whoever keeps
// runs implements it, and the assembler connects both.
import type { Route } from "#apps/routes.ts";
import type { Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";

/** A call that the gate has let pass, of an app with a live release; its fields and parameters are checked. */
export type AsyncCall = {
  readonly runId: RunId;
  readonly route: Route;
  readonly method: string;
  /** What the replica is to be asked for, query included, without the platform's own parameters. */
  readonly path: string;
  /**
   * The lines that the replica would get of a plain call, each with its line end: without framing, the call's id, the
   * platform's token and the fields below.
   */
  readonly lines: string;
  readonly clientAddress: string;
  /** Decoded and checked; null: none. */
  readonly webhookEndpoint: string | null;
  /** What deliveries to it are signed with, from `X-Webhook-Secret`; null: none. */
  readonly webhookSecret: string | null;
  /** 1 to 255 visible ASCII characters; null: none. */
  readonly idempotencyKey: string | null;
  /** From `Slipway-Retries`; null: as the app says. */
  readonly retries: number | null;
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
