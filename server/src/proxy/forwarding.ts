// Answers of calls that name a `webhookEndpoint` are forwarded to it. The proxy only declares who does that, and hands over
// a copy of the answer when it is complete; its caller is served as always and waits for nothing of it.
import type { Fault } from "#lib/fault.ts";
import type { AppId, ProjectId, RunId } from "#lib/ids.ts";
import type { AnswerHead } from "./answer-head.ts";
import { AnswerCollector, type CollectedAnswer } from "./answer-collector.ts";
import type { Piece } from "./answer-parser.ts";
import type { Client, ClientUser, HeadGiven } from "./client.ts";
import { faultBody, statusOf } from "./refusal.ts";
import type { ReplicaConnection } from "./replica-connection.ts";
import type { BodyUser, RequestBody } from "./request-body.ts";

/** An answer for a webhook. */
export type ForwardedAnswer = CollectedAnswer & {
  readonly runId: RunId;
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly url: string;
  /** What the delivery is signed with besides the project's own; null: nothing. */
  readonly secret: string | null;
};

/** Whoever delivers to webhooks. */
export interface Forwarding {
  /** Why the URL cannot be delivered to; null: it can. At once, without asking the network. */
  check(url: string): Fault | null;
  /** Takes an answer; must return at once. */
  forward(answer: ForwardedAnswer): void;
  /** Longer bodies are not kept, only their length. */
  readonly bytesMax: number;
}

/** Whose answer it is and where it goes. */
export type Forwarded = Pick<ForwardedAnswer, "runId" | "projectId" | "appId" | "url" | "secret">;

/** How many bytes of answers are gathered at the moment, of all calls together. */
export class GatheredBytes {
  readonly #bytesMax: number;
  #bytes = 0;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** False: there is no room for them. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#bytesMax) return false;
    this.#bytes += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes;
  }
}

/** A client whose answer is forwarded: all that is sent to it is gathered on the way. */
export class ForwardingClient implements Client {
  readonly #forwarded: Forwarded;
  readonly #client: Client;
  readonly #forwarding: Forwarding;
  readonly #collector: AnswerCollector;
  readonly #gathered: GatheredBytes;
  #takenBytes = 0;

  constructor(client: Client, forwarded: Forwarded, forwarding: Forwarding, gathered: GatheredBytes) {
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

  head(head: AnswerHead, runId: RunId, given: HeadGiven): void {
    this.#collector.head(head);
    this.#client.head(head, runId, given);
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

  /** Of an answer that there is no room for only the length is forwarded. The caller gets it all the same. */
  #gather(piece: Piece): void {
    this.#collector.add(piece);
    const moreBytes = this.#collector.heldBytes - this.#takenBytes;
    if (moreBytes > 0 && this.#gathered.take(moreBytes)) {
      this.#takenBytes += moreBytes;
    } else if (moreBytes !== 0) {
      this.#collector.drop();
      this.#giveBack();
    }
  }

  #giveBack(): void {
    this.#gathered.giveBack(this.#takenBytes);
    this.#takenBytes = 0;
  }

  #forward(answer: CollectedAnswer): void {
    this.#giveBack();
    this.#forwarding.forward({ ...this.#forwarded, ...answer });
  }
}

function faultAnswer(fault: Fault): CollectedAnswer {
  const body = faultBody(fault);
  return { status: statusOf(fault), contentType: "application/json", body, bodyBytes: body.length };
}
