// The call of an async run: it goes the road of a plain call - line, limits, choice of the replica, deadlines - with a
// client that keeps the run in place of one that waits. It asks whoever keeps it before the first byte is sent, gathers
// the answer, and tells the end exactly once, when the place on the replica is given back.
import type { Fault } from "#lib/fault.ts";
import type { AppId, ProjectId, RunId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import type { ReadyReplica } from "#scheduler/replica-view.ts";
import { AnswerCollector, type CollectedAnswer } from "./answer-collector.ts";
import type { AnswerHead } from "./answer-head.ts";
import type { Piece } from "./answer-parser.ts";
import type { PlainAbout } from "./call.ts";
import type { Client, ClientUser } from "./client.ts";
import type { ReplicaConnection } from "./replica-connection.ts";
import type { BodyUser } from "./request-body.ts";
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

/** A body up to this size is sent in one write with the head. */
const textBytesMax = 8_192;
/** Methods that announce even an empty body (RFC 9110, 8.6). */
const withBody = new Set(["POST", "PUT", "PATCH"]);

/** What the call of a run is about. */
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
    clientAddress: "",
    webhookEndpoint: null,
    isWebSocket: false,
    isSandboxed: false,
    mayStart: (replica) => client.mayStart(replica),
  };
}

/** In place of a client, for one attempt of one run. */
export class RunClient implements Client, RunHandle {
  /** How the body is announced. */
  readonly fields: RequestFields;
  readonly #request: RunRequest;
  readonly #watcher: RunWatcher;
  readonly #log: Log;
  readonly #collector: AnswerCollector;
  #user: ClientUser | null = null;
  #answerBytes = 0;
  #wasSent = false;
  #isOver = false;

  constructor(request: RunRequest, watcher: RunWatcher, log: Log) {
    const { method, body, answerBytesMax } = request;
    const announces = body.length > 0 || withBody.has(method);
    this.fields = new RequestFields(announces ? `Content-Length: ${body.length}\r\n` : "");
    this.#request = request;
    this.#watcher = watcher;
    this.#log = log;
    this.#collector = new AnswerCollector(answerBytesMax);
  }

  withdraw(): void {
    if (this.#isOver) return;
    this.#user?.onClientGone();
    this.#over(() => ({ kind: "withdrawn" }));
  }

  /** Whether the call may be sent to the replica; else it is withdrawn. */
  async mayStart(replica: ReadyReplica): Promise<boolean> {
    const isLetGo = await this.#watcher.mayStart(replica);
    if (!isLetGo) this.withdraw();
    return isLetGo;
  }

  use(user: ClientUser): void {
    this.#user = user;
  }

  send(connection: ReplicaConnection, head: string, user: BodyUser): null {
    const { body } = this.#request;
    this.#wasSent = true;
    user.requestBytes = body.length;
    const isText = body.length <= textBytesMax;
    connection.write(isText ? `${head}\r\n${body.toString("latin1")}` : `${head}\r\n`);
    if (!isText) connection.write(body);
    return null;
  }

  information(): void {
    // Nobody waits for the answer.
  }

  head(head: AnswerHead): void {
    this.#collector.head(head);
  }

  piece(piece: Piece, isLast: boolean): boolean {
    this.#collector.add(piece);
    this.#answerBytes += piece.length;
    const wait = this.#watcher.mayGrow?.(this.#answerBytes) ?? null;
    if (isLast) this.end();
    if (wait === null || isLast) return true;
    void wait.then(() => this.#user?.onClientDrain());
    return false;
  }

  flush(): void {
    // There is nothing to wait for.
  }

  end(): void {
    this.#over(() => ({ kind: "answered", ...this.#collector.answer() }));
  }

  refuse(fault: Fault): void {
    this.#over(() => ({ kind: "failed", fault, wasSent: this.#wasSent }));
  }

  destroy(fault: Fault): void {
    this.refuse(fault);
  }

  /** Told behind whatever is being done now: `Proxy.run`, and giving the place back. */
  #over(ending: () => RunEnding): void {
    if (this.#isOver) return;
    this.#isOver = true;
    queueMicrotask(() => {
      try {
        this.#watcher.onEnd(ending());
      } catch (error) {
        this.#log.error({ err: error, runId: this.#request.runId }, "the end of a run's call could not be told");
      }
    });
  }
}
