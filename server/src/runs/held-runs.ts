// Client for the held runs of the cortex runtime: fetches an answer, acknowledges it, stops a
// function. Called by the runs' execution and recovery; the protocol is in
// runtimes/python/README.md.
import { Agent } from "node:http";
import type { Address } from "#drivers/driver.ts";
import type { Clock } from "#lib/clock.ts";
import type { Log } from "#lib/log.ts";
import type { CollectedAnswer } from "#proxy/answer-collector.ts";
import { Acknowledgements } from "./acknowledgements.ts";
import { askReplica, type ReplicaAnswer } from "./ask-replica.ts";
import type { HeldId } from "./held-id.ts";

/**
 * What a replica reports about a run. `lost`: its outcome cannot be determined; `reason` is a
 * clause for the app's owner.
 */
export type Attached =
  /**
   * The answer is there. Its body is null when it is longer than requested, or than the replica
   * keeps.
   */
  | ({ readonly kind: "answered" } & CollectedAnswer)
  /**
   * The replica does not know the run. `hasForgotten`: it has dropped answers of runs, perhaps the
   * answer of this one; false: the run was never begun there, or it is already acknowledged.
   */
  | { readonly kind: "unknown"; readonly hasForgotten: boolean }
  | { readonly kind: "lost"; readonly reason: string };

/**
 * An attach keeps its connection until the run ends, so a replica needs one connection per
 * concurrent run, up to this bound.
 */
const attachesAtOnceMax = 1_024;
/** How many connections to one replica carry cancels and acknowledgements. */
const questionsAtOnceMax = 32;
/** A replica takes up to 5 s to stop a function before it answers a cancel. */
const cancelWaitMs = 15_000;
const acknowledgeWaitMs = 5_000;
/**
 * After this time, an idle connection is closed. The runtime closes an idle connection after 90 s;
 * the shorter time makes it rare that a request is sent on a connection which the runtime is about
 * to close.
 */
const idleMs = 30_000;
/** How many connections to one replica are kept while no request needs them. */
const idleConnectionsMax = 4;
/** The maximum length of an answer that the runtime itself gives, and not the app. */
const messageBytesMax = 64 * 1_024;
/** A longer message of a replica is cut off where it becomes part of a reason. */
const reasonCharactersMax = 300;
/** A longer content type is not stored with the answer; no real content type is so long. */
const contentTypeCharactersMax = 255;

/** Asks replicas about held runs; one per platform. Call `close()` at the end. */
export class HeldRuns {
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #attachAgent = agentOf(attachesAtOnceMax);
  readonly #questionAgent = agentOf(questionsAtOnceMax);
  readonly #acknowledgements: Acknowledgements;
  readonly #closing = new AbortController();

  constructor(options: { readonly clock: Clock; readonly log: Log }) {
    this.#clock = options.clock;
    this.#log = options.log;
    this.#acknowledgements = new Acknowledgements({
      ...options,
      send: (address, heldIds) => this.#acknowledge(address, heldIds),
    });
  }

  /**
   * Waits at most `waitMs` for the end of the run and returns its answer. Never rejects; an abort
   * or a timeout is `lost`.
   */
  async attach(
    address: Address,
    heldId: HeldId,
    options: { readonly signal: AbortSignal; readonly bytesMax: number; readonly waitMs: number },
  ): Promise<Attached> {
    const { waitMs, bytesMax } = options;
    try {
      const answer = await askReplica({
        address,
        method: "GET",
        path: pathOf(heldId),
        body: null,
        waitMs,
        clock: this.#clock,
        agent: this.#attachAgent,
        signal: AbortSignal.any([options.signal, this.#closing.signal]),
        // Only an answer with this header is the app's, and may be as long as the caller wants.
        bytesMax: (headers) => (headers["slipway-held"] === "1" ? bytesMax : messageBytesMax),
      });
      return attachedOf(answer);
    } catch (error) {
      return {
        kind: "lost",
        reason: error instanceof Error ? error.message : "the replica could not be asked",
      };
    }
  }

  /**
   * Lets the replica forget the run, whose outcome is stored. Batched, best effort, returns at
   * once.
   */
  acknowledge(address: Address, heldId: HeldId): void {
    this.#acknowledgements.add(address, heldId);
  }

  /**
   * Stops the run's function, or removes the call from the replica's line. `running`: still running
   * 5 s after the request. `unknown`: the replica does not know the run, or cannot be reached.
   * Never rejects.
   */
  async cancel(address: Address, heldId: HeldId): Promise<"stopped" | "running" | "unknown"> {
    try {
      const { status, body } = await askReplica({
        address,
        method: "DELETE",
        path: pathOf(heldId),
        body: null,
        waitMs: cancelWaitMs,
        clock: this.#clock,
        agent: this.#questionAgent,
        signal: this.#closing.signal,
        bytesMax: () => messageBytesMax,
      });
      const isStopped = status === 200 ? memberOf(body, "stopped") : undefined;
      if (isStopped === true) return "stopped";
      if (isStopped === false) return "running";
      if (status !== 404)
        this.#log.warn(
          { heldId, status },
          "a replica gave an odd answer to the cancelling of a run",
        );
    } catch (error) {
      this.#log.debug({ err: error, heldId }, "a replica could not be asked to stop a run");
    }
    return "unknown";
  }

  /**
   * Sends the remaining acknowledgements, ends all waits (attaches as `lost`), closes all
   * connections.
   */
  async close(): Promise<void> {
    this.#closing.abort(new Error("the platform stops"));
    await this.#acknowledgements.close();
    this.#attachAgent.destroy();
    this.#questionAgent.destroy();
  }

  async #acknowledge(address: Address, heldIds: readonly HeldId[]): Promise<void> {
    const { status } = await askReplica({
      address,
      method: "POST",
      path: "/_slipway/runs/acknowledge",
      body: JSON.stringify(heldIds),
      agent: this.#questionAgent,
      waitMs: acknowledgeWaitMs,
      clock: this.#clock,
      bytesMax: () => messageBytesMax,
    });
    if (status !== 200) throw new Error(`the replica answered ${status} to an acknowledgement`);
  }
}

/**
 * Interprets the answer to an attach. Only an answer with the header `Slipway-Held` is the app's.
 * Pure.
 */
function attachedOf(answer: ReplicaAnswer): Attached {
  const { status, headers, body } = answer;
  // Other statuses cannot be those of a finished answer.
  if (headers["slipway-held"] === "1" && status >= 200 && status <= 599) {
    const contentType = contentTypeOf(answer);
    // The replica sends this length instead of a body that is longer than it keeps.
    const fullLength = headers["slipway-body-bytes"];
    if (fullLength === undefined)
      return { kind: "answered", status, contentType, body, bodyBytes: answer.bodyBytes };
    // A number of 15 digits is still exact.
    if (typeof fullLength === "string" && /^\d{1,15}$/.test(fullLength)) {
      return { kind: "answered", status, contentType, body: null, bodyBytes: Number(fullLength) };
    }
    return { kind: "lost", reason: "the replica's answer does not say how long it is" };
  }
  const hasForgotten = status === 404 ? memberOf(body, "has_forgotten") : undefined;
  if (typeof hasForgotten === "boolean") return { kind: "unknown", hasForgotten };
  const message = memberOf(body, "message");
  const detail = typeof message === "string" ? `: ${printable(message)}` : "";
  return { kind: "lost", reason: `the replica answered ${status}${detail}` };
}

function contentTypeOf({ headers }: ReplicaAnswer): string | null {
  const contentType = headers["content-type"];
  if (contentType === undefined || contentType.length > contentTypeCharactersMax) return null;
  return contentType;
}

/** A member of the JSON object in `body`; undefined when absent. */
function memberOf(body: Buffer | null, name: string): unknown {
  if (body === null) return undefined;
  try {
    const value: unknown = JSON.parse(body.toString("utf8"));
    if (typeof value !== "object" || value === null) return undefined;
    return (value as Record<string, unknown>)[name];
  } catch {
    // The body is not JSON.
    return undefined;
  }
}

/** The text without control characters and format characters, cut off where it is long. */
function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}]/gu, " ").slice(0, reasonCharactersMax);
}

function pathOf(heldId: HeldId): string {
  return `/_slipway/runs/${encodeURIComponent(heldId)}`;
}

function agentOf(connectionsMax: number): Agent {
  return new Agent({
    keepAlive: true,
    maxSockets: connectionsMax,
    maxFreeSockets: idleConnectionsMax,
    timeout: idleMs,
    // The connection used last is used next, so that others become idle and are closed.
    scheduling: "lifo",
  });
}
