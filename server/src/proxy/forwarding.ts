// Forwards the answers of calls that name a `webhookEndpoint`. The proxy only declares the
// interface and hands over a copy of each complete answer, or of the fault that stands in for it.
// The caller is served as usual, and does not wait for the delivery.
import type { Fault } from "#lib/fault.ts";
import type { AppKey, RunId } from "#lib/ids.ts";
import type { AnswerHead } from "./answer-head.ts";
import { AnswerCollector, type CollectedAnswer } from "./answer-collector.ts";
import type { Piece } from "./answer-parser.ts";
import type { Client, ClientUser, HeadGiven } from "./client.ts";
import { faultBody, statusOf } from "./refusal.ts";
import type { ReplicaConnection } from "./replica-connection.ts";
import type { BodyUser, RequestBody } from "./request-body.ts";

/** An answer for a webhook. */
export type ForwardedAnswer = CollectedAnswer &
  AppKey & {
    readonly runId: RunId;
    readonly url: string;
    /** Signs the delivery in addition to the project's own secrets; null: none. */
    readonly secret: string | null;
  };

/** Delivers answers to webhooks. */
export interface Forwarding {
  /** Why the URL can get no deliveries; null: it can. Synchronous, without network access. */
  check(url: string): Fault | null;
  /** Accepts an answer; must return at once. */
  forward(answer: ForwardedAnswer): void;
  /** The maximum size of a body that is forwarded; only the length of a longer one is kept. */
  readonly bytesMax: number;
}

/** The source and the destination of an answer. */
export type Forwarded = Pick<ForwardedAnswer, "runId" | "projectId" | "appId" | "url" | "secret">;

/** Counts and limits the bytes of the answers that are being collected, over all calls. */
export class GatheredBytes {
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Reserves memory for an answer. False: the limit would be exceeded. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#bytesMax) return false;
    this.#bytes += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes;
  }
}

/** A client whose answer is forwarded: collects everything that is sent to it. */
export class ForwardingClient implements Client {
  readonly #forwarded: Forwarded;
  readonly #client: Client;
  readonly #forwarding: Forwarding;
  readonly #collector: AnswerCollector;
  readonly #gathered: GatheredBytes;
  /** How much of `#gathered` is reserved for this answer. */
  #reservedBytes = 0;

  constructor(
    client: Client,
    forwarded: Forwarded,
    forwarding: Forwarding,
    gathered: GatheredBytes,
  ) {
    this.#client = client;
    this.#forwarded = forwarded;
    this.#forwarding = forwarding;
    this.#gathered = gathered;
    this.#collector = new AnswerCollector(forwarding.bytesMax);
  }

  use(user: ClientUser): void {
    this.#client.use({
      onClientGone: () => {
        this.#giveBack();
        user.onClientGone();
      },
      onClientDrain: () => user.onClientDrain(),
    });
  }

  send(connection: ReplicaConnection, head: string, user: BodyUser): RequestBody | null {
    return this.#client.send(connection, head, user);
  }

  information(head: AnswerHead): void {
    this.#client.information(head);
  }

  head(head: AnswerHead, runId: RunId, addition: HeadGiven): void {
    this.#collector.head(head);
    this.#client.head(head, runId, addition);
  }

  piece(piece: Piece, isLast: boolean): boolean {
    const isDrained = this.#client.piece(piece, isLast);
    this.#gather(piece);
    if (isLast) this.#forward(this.#collector.answer());
    return isDrained;
  }

  flush(): void {
    this.#client.flush();
  }

  end(trailers: readonly string[]): void {
    this.#client.end(trailers);
    this.#forward(this.#collector.answer());
  }

  refuse(fault: Fault, runId: RunId, nowMs: number): void {
    this.#client.refuse(fault, runId, nowMs);
    this.#forward(faultAnswer(fault));
  }

  destroy(fault: Fault): void {
    this.#client.destroy(fault);
    this.#forward(faultAnswer(fault));
  }

  /** Collects a piece. When too much is collected, only the answer's length is forwarded. */
  #gather(piece: Piece): void {
    this.#collector.add(piece);
    // Less than zero: the answer became longer than `bytesMax`, so the collector has dropped it.
    const unreservedBytes = this.#collector.heldBytes - this.#reservedBytes;
    if (unreservedBytes > 0 && this.#gathered.take(unreservedBytes)) {
      this.#reservedBytes += unreservedBytes;
    } else if (unreservedBytes !== 0) {
      this.#collector.drop();
      this.#giveBack();
    }
  }

  #giveBack(): void {
    this.#gathered.giveBack(this.#reservedBytes);
    this.#reservedBytes = 0;
  }

  #forward(answer: CollectedAnswer): void {
    this.#giveBack();
    this.#forwarding.forward({ ...this.#forwarded, ...answer });
  }
}

/** The answer for the webhook when the caller gets the fault. */
function faultAnswer(fault: Fault): CollectedAnswer {
  const body = faultBody(fault);
  return { status: statusOf(fault), contentType: "application/json", body, bodyBytes: body.length };
}
