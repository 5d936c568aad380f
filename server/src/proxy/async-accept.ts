// What takes over calls with `async=true`, which are answered before they run. The proxy only declares it: whoever keeps
// runs implements it, and the assembler connects both.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Route } from "#apps/routes.ts";
import type { RunId } from "#lib/ids.ts";

/** A call that the gate has let pass, of an app with a live release. */
export type AsyncCall = {
  readonly runId: RunId;
  readonly route: Route;
  /** What the replica is to be asked for, without the platform's own parameters. */
  readonly path: string;
  /** Decoded; not checked. Null: none. */
  readonly webhookEndpoint: string | null;
  /** Its body is not read. */
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
};

/** Answers the call, whatever happens: 202 once it is sure to be run. */
export interface AsyncAccept {
  accept(call: AsyncCall): void;
}
