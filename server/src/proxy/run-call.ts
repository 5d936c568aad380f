// The call of an async run. It shares the line, the limits, the choice of the replica and the
// deadlines with plain calls, but its client is no waiting caller: it asks the run's watcher before
// the first byte is sent, collects the answer, and reports the end exactly once, when the slot is
// released.
import type { Fault } from "#lib/fault.ts";
import type { AppId, ProjectId, RunId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import type { ReadyReplica } from "#scheduler/replica-view.ts";
import { AnswerCollector, type CollectedAnswer } from "./answer-collector.ts";
import type { AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";
import { refusedByReplica } from "./call-faults.ts";
import type { PlainAbout } from "./call.ts";
import type { Client, ClientUser } from "./client.ts";
import type { ReplicaConnection } from "./replica-connection.ts";
import type { BodyUser } from "./request-body.ts";
import { RequestFields } from "./request-fields.ts";

/** The request to the replica. */
export type RunRequest = {
  readonly runId: RunId;
  readonly appId: AppId;
  readonly method: string;
  /** Begins with `/`, including the query. */
  readonly path: string;
  /** Field lines, each with its line end, without framing and the call's id. */
  readonly lines: string;
  readonly body: Buffer;
  /** The maximum size of an answer that is kept; only the length of a longer one is reported. */
  readonly answerBytesMax: number;
};

/** How a run's call ended. */
export type RunEnding =
  | ({ readonly kind: "answered" } & CollectedAnswer)
  /**
   * There is no complete answer. `wasSent`: the replica may have begun to work. `why`: a fuller
   * reason for the app's owner; callers must not get it, because it may quote what the replica
   * printed about other calls.
   */
  | {
      readonly kind: "failed";
      readonly fault: Fault;
      readonly wasSent: boolean;
      readonly why?: string;
    }
  | { readonly kind: "withdrawn" };

/** The owner of the run. */
export interface RunWatcher {
  /**
   * Called when a slot is assigned and nothing has been sent. True: the call is sent; false: the
   * slot is released and the call ends as withdrawn. Called again for another replica if the first
   * is unreachable. A rejection ends the call with a fault `internal`. If the call ends while the
   * decision is pending, the decision is ignored.
   */
  mayStart(replica: ReadyReplica): Promise<boolean>;
  /**
   * Called after each piece with the length of the answer so far. Null: continue; otherwise reading
   * pauses until the promise resolves, which may be after the end of the call. Must not throw or
   * reject.
   */
  mayGrow(answerBytes: number): Promise<void> | null;
  /** Called exactly once, and not before `Proxy.run` has returned. Must not throw. */
  onEnd(ending: RunEnding): void;
}

/** Lets the owner of a run withdraw its call. */
export interface RunHandle {
  /**
   * Removes the call from the line, or closes its connection to the replica. The call ends as
   * withdrawn unless it has already ended.
   */
  withdraw(): void;
}

/** A body up to this size is sent in one write with the head. */
const textBytesMax = 8_192;
/** Methods that announce even an empty body (RFC 9110, 8.6). */
const withBody = new Set(["POST", "PUT", "PATCH"]);

/** Describes the call of a run. */
export function aboutRun(request: RunRequest, client: RunClient, projectId: ProjectId): PlainAbout {
  const { runId, appId, method, path, lines } = request;
  return {
    client,
    runId,
    projectId,
    appId,
    method,
    path,
    fields: client.fields,
    lines,
    // The run has a record of its own, so nobody reads these two values of its call.
    clientAddress: "",
    webhookEndpoint: null,
    isWebSocket: false,
    // No browser gets the answer, so cookies in it need no path.
    rootPath: "",
    mayStart: (replica) => client.mayStart(replica),
  };
}

/** Stands in for a client during one attempt of one run. */
export class RunClient implements Client, RunHandle {
  /** Holds only the field that announces the length of the body, if the method needs one. */
  readonly fields: RequestFields;
  readonly #request: RunRequest;
  readonly #watcher: RunWatcher;
  readonly #log: Log;
  readonly #collector: AnswerCollector;
  #user: ClientUser | null = null;
  #answerBytes = 0;
  #wasSent = false;
  /** The replica says that it never began the call. */
  #isRefused = false;
  #isOver = false;

  constructor(request: RunRequest, watcher: RunWatcher, log: Log) {
    const { method, body, answerBytesMax } = request;
    const announces = body.length > 0 || withBody.has(method);
    const lengthLine = announces ? `Content-Length: ${body.length}\r\n` : "";
    this.fields = new RequestFields(lengthLine);
    this.#request = request;
    this.#watcher = watcher;
    this.#log = log;
    this.#collector = new AnswerCollector(answerBytesMax);
  }

  withdraw(): void {
    if (this.#isOver) return;
    this.#user?.onClientGone();
    this.#finish(() => ({ kind: "withdrawn" }));
  }

  /** Whether the call may be sent to the replica; if not, it is withdrawn. */
  async mayStart(replica: ReadyReplica): Promise<boolean> {
    const isAllowed = await this.#watcher.mayStart(replica);
    if (!isAllowed) this.withdraw();
    return isAllowed;
  }

  use(user: ClientUser): void {
    this.#user = user;
  }

  send(connection: ReplicaConnection, head: string, user: BodyUser): null {
    const { body } = this.#request;
    this.#wasSent = true;
    user.requestBytes = body.length;
    if (body.length <= textBytesMax) {
      connection.write(`${head}\r\n${body.toString("latin1")}`);
    } else {
      connection.write(`${head}\r\n`);
      connection.write(body);
    }
    return null;
  }

  information(): void {
    // Nobody waits for informational answers.
  }

  head(head: AnswerHead): void {
    this.#isRefused = head.isRefused;
    this.#collector.head(head);
  }

  piece(piece: Piece, isLast: boolean): boolean {
    this.#collector.add(piece);
    this.#answerBytes += piece.length;
    const wait = this.#watcher.mayGrow(this.#answerBytes);
    if (isLast) this.end();
    if (wait === null || isLast) return true;
    void wait.then(() => this.#user?.onClientDrain());
    return false;
  }

  flush(): void {
    // No head is buffered here.
  }

  end(): void {
    this.#finish(() => this.#endingOfAnswer());
  }

  #endingOfAnswer(): RunEnding {
    if (this.#isRefused) return { kind: "failed", fault: refusedByReplica(), wasSent: false };
    return { kind: "answered", ...this.#collector.answer() };
  }

  refuse(fault: Fault): void {
    this.#finish(() => ({ kind: "failed", fault, wasSent: this.#wasSent }));
  }

  destroy(fault: Fault): void {
    this.refuse(fault);
  }

  /** Reports the end once `Proxy.run` has returned and the slot is released. */
  #finish(ending: () => RunEnding): void {
    if (this.#isOver) return;
    this.#isOver = true;
    queueMicrotask(() => {
      try {
        this.#watcher.onEnd(ending());
      } catch (error) {
        this.#log.error(
          { err: error, runId: this.#request.runId },
          "the end of a run's call could not be told",
        );
      }
    });
  }
}
