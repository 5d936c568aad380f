// The call of an async run: it goes the road of a plain call - line, limits, choice of the replica, deadlines -, with a
// word from whoever keeps the run between the place on a replica and the first byte that is sent. Its answer is gathered.
// It ends exactly once, and its place is given back by then.
import { Fault } from "#lib/fault.ts";
import type { AppId, ProjectId, RunId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import type { ReadyReplica } from "#scheduler/replica-view.ts";
import type { Live } from "./admitted-call.ts";
import { AnswerCollector, type CollectedAnswer } from "./answer-collector.ts";
import type { AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";
import type { AppCalls } from "./app-calls.ts";
import { Call, type CallParts } from "./call.ts";
import { internal } from "./call-faults.ts";
import type { Client, ClientUser } from "./client.ts";
import type { CallOutcome } from "./finished-call.ts";
import type { ReplicaConnection } from "./replica-connection.ts";
import type { ReplicaSlot } from "./replica-slot.ts";
import { RequestFields } from "./request-fields.ts";

/** What is sent to the replica. */
export type RunRequest = {
  readonly runId: RunId;
  readonly appId: AppId;
  readonly method: string;
  /** Begins with `/`, query included. */
  readonly path: string;
  /** Lines of fields, each with its line end, without framing and the call's id. */
  readonly lines: string;
  readonly body: Buffer;
  /** Of a longer answer only the length is told. */
  readonly answerBytesMax: number;
};

/** How a run's call ended. */
export type RunEnding =
  | ({ readonly kind: "answered" } & CollectedAnswer)
  /** There is no complete answer. `wasSent`: the replica may have begun to work. */
  | { readonly kind: "failed"; readonly fault: Fault; readonly wasSent: boolean }
  | { readonly kind: "withdrawn" };

/** Whoever keeps the run. */
export interface RunWatcher {
  /**
   * A place was found and nothing is sent yet. True: it is sent; false: the place is given back and the call ends as
   * withdrawn. Comes again for another replica when the first could not be reached. A rejection ends the call with a
   * fault `internal`. The call may end while this is still being decided; the decision is of no meaning then.
   */
  mayStart(replica: ReadyReplica): Promise<boolean>;
  /**
   * Told after each piece how long the answer is by now. Null: go on; else nothing more is read until it resolves, which
   * may be after the end. Must not throw or reject.
   */
  mayGrow?(answerBytes: number): Promise<void> | null;
  /** Exactly once, and not before `Proxy.run` has returned. Must not throw. */
  onEnd(ending: RunEnding): void;
}

/** A run's call under way. */
export interface RunHandle {
  /** Takes it out of the line, or closes the connection to the replica; it ends as withdrawn unless it has ended. */
  withdraw(): void;
}

/** All that a run's call needs. */
export type RunCallOptions = {
  readonly request: RunRequest;
  readonly watcher: RunWatcher;
  readonly projectId: ProjectId;
  readonly app: AppCalls;
  readonly live: Live;
  readonly arrivedAtMs: number;
  readonly parts: CallParts;
  /** Told first of all when it has ended. */
  readonly onOver: (call: RunCall) => void;
};

const noFields = new RequestFields("");
/** A body up to this size is sent in one write with the head. */
const textBytesMax = 8_192;
/** Methods that announce even an empty body (RFC 9110, 8.6). */
const withBody = new Set(["POST", "PUT", "PATCH"]);

/** One attempt of one run. `enter()` once; everything after that happens by itself. */
export class RunCall extends Call implements RunHandle {
  readonly #options: RunCallOptions;
  readonly #client: RunClient;
  #isStarting = false;
  #wasSent = false;

  constructor(options: RunCallOptions) {
    const { request, watcher, projectId, app, live, arrivedAtMs, parts } = options;
    const { runId, path, lines } = request;
    const client = new RunClient(request, watcher);
    const about = { client, runId, projectId, path, clientAddress: "", fields: noFields, lines, isSandboxed: false };
    super(about, app, live, arrivedAtMs, parts);
    this.#options = options;
    this.#client = client;
  }

  withdraw(): void {
    this.onClientGone();
  }

  /** Ends it with the fault wherever it is; for the end of the platform. */
  stop(fault: Fault): void {
    this.fail(fault);
  }

  override begin(slot: ReplicaSlot): void {
    this.lastSlot = slot;
    this.#isStarting = true;
    void this.#start(slot);
  }

  override onDeadline(nowMs: number): void {
    if (this.#isStarting) this.fail(notStarted());
    else super.onDeadline(nowMs);
  }

  protected override send(connection: ReplicaConnection): void {
    const { method, path, lines, runId, body } = this.#options.request;
    const announces = body.length > 0 || withBody.has(method);
    const framing = announces ? `Content-Length: ${body.length}\r\n` : "";
    const head = `${method} ${path} HTTP/1.1\r\n${lines}X-Request-Id: ${runId}\r\n${framing}\r\n`;
    this.#wasSent = true;
    this.requestBytes = body.length;
    if (body.length <= textBytesMax) {
      connection.write(head + body.toString("latin1"));
      return;
    }
    connection.write(head);
    connection.write(body);
  }

  protected override over(outcome: CallOutcome, nowMs: number): void {
    super.over(outcome, nowMs);
    this.#options.onOver(this);
    // The place is given back only behind this.
    tellEnd(this.#options.watcher, () => this.#ending(outcome), {
      log: this.#options.parts.log,
      runId: this.about.runId,
    });
  }

  /** Not within `begin`: a call must not leave before that has returned. */
  async #start(slot: ReplicaSlot): Promise<void> {
    const { watcher, parts, request } = this.#options;
    try {
      await Promise.resolve();
      if (this.isOver) return;
      const isLetGo = await watcher.mayStart(slot.replica);
      if (this.isOver) return;
      this.#isStarting = false;
      if (isLetGo) super.begin(slot, parts.monotonicMs());
      else this.withdraw();
    } catch (error) {
      parts.log.error({ err: error, runId: request.runId }, "the call of a run could not begin");
      this.fail(internal(request.runId, error));
    }
  }

  #ending(outcome: CallOutcome): RunEnding {
    if (outcome === "client_gone") return { kind: "withdrawn" };
    const { fault, collector } = this.#client;
    if (fault !== null) return { kind: "failed", fault, wasSent: this.#wasSent };
    return { kind: "answered", ...collector.answer() };
  }
}

/** The keeper's memory may be slow, which is not the app's fault. */
function notStarted(): Fault {
  return new Fault("unavailable", "The start of the run could not be written down in time.");
}

/** Ends a run's call that could not even begin. */
export function endedAtOnce(watcher: RunWatcher, fault: Fault, of: { log: Log; runId: RunId }): RunHandle {
  tellEnd(watcher, () => ({ kind: "failed", fault, wasSent: false }), of);
  return { withdraw: () => undefined };
}

/** Behind whatever is being done now, `Proxy.run` included. */
function tellEnd(watcher: RunWatcher, ending: () => RunEnding, { log, runId }: { log: Log; runId: RunId }): void {
  queueMicrotask(() => {
    try {
      watcher.onEnd(ending());
    } catch (error) {
      log.error({ err: error, runId }, "the end of a run's call could not be told");
    }
  });
}

/** In place of a client: gathers the answer. */
class RunClient implements Client {
  readonly request = null;
  readonly body = "";
  readonly method: string;
  readonly collector: AnswerCollector;
  readonly #watcher: RunWatcher;
  #user: ClientUser | null = null;
  #answerBytes = 0;
  /** Why there is no complete answer; null: nothing is known against it. */
  fault: Fault | null = null;

  constructor({ method, answerBytesMax }: RunRequest, watcher: RunWatcher) {
    this.method = method;
    this.collector = new AnswerCollector(answerBytesMax);
    this.#watcher = watcher;
  }

  use(user: ClientUser): void {
    this.#user = user;
  }

  information(): void {
    // Nobody waits for the answer.
  }

  giveLeave(): void {
    // The body was sent without asking.
  }

  head(head: AnswerHead): void {
    this.collector.head(head);
  }

  piece(piece: Piece, isLast: boolean): boolean {
    this.collector.add(piece);
    this.#answerBytes += piece.length;
    const wait = this.#watcher.mayGrow?.(this.#answerBytes) ?? null;
    if (wait === null || isLast) return true;
    void wait.then(() => this.#user?.onClientDrain());
    return false;
  }

  flush(): void {
    // There is nothing to wait for.
  }

  end(): void {
    // The call tells its end.
  }

  refuse(fault: Fault): void {
    this.fault = fault;
  }

  destroy(fault: Fault): void {
    this.fault = fault;
  }
}
