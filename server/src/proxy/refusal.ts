// The proxy's own answers: a fault as `{"message": …}` with the status of its code, and the id of
// an accepted run. A client that is still sending a large body is read for a while longer: closing
// a connection with unread bytes resets it, and the client, or a TLS proxy in front of the
// platform, would never see the answer.
import { STATUS_CODES, type IncomingMessage, type ServerResponse } from "node:http";
import { faultTable, type Fault } from "#lib/fault.ts";
import type { RunId } from "#lib/ids.ts";
import { nothingAdded, type AddedFields } from "./added-fields.ts";
import { Timed, type Deadlines } from "./deadlines.ts";

/** Bodies up to this size are read to their end, and the connection stays open. */
const smallBodyBytes = 65_536;
/** How long larger bodies are read and dropped; as nginx's `lingering_time`. */
const lingerMs = 30_000;

/** The HTTP status of a fault. */
export function statusOf(fault: Fault): number {
  return faultTable[fault.code].status;
}

/** The JSON sent to the caller. */
export function faultBody(fault: Fault): Buffer {
  return Buffer.from(JSON.stringify({ message: fault.message }));
}

/** An answer of the platform itself. */
export type OwnAnswer = {
  readonly status: number;
  /** Name, value, name, value … */
  readonly fields: string[];
  readonly body: Buffer;
};

/** The fault as an answer. */
export function refusalOf(fault: Fault, runId: RunId): OwnAnswer {
  const answer = { status: statusOf(fault), ...jsonOf(faultBody(fault), runId) };
  if (fault.code === "unauthorized") answer.fields.push("WWW-Authenticate", "Bearer");
  if (fault.retryAfterSeconds !== undefined)
    answer.fields.push("Retry-After", String(fault.retryAfterSeconds));
  return answer;
}

/** Answers that the call runs later, as this run. */
export function acceptanceOf(runId: RunId): OwnAnswer {
  return { status: 202, ...jsonOf(Buffer.from(JSON.stringify({ run_id: runId })), runId) };
}

/** The body, which is JSON, and the fields that describe it. */
function jsonOf(body: Buffer, runId: RunId): Pick<OwnAnswer, "fields" | "body"> {
  const length = String(body.length);
  return {
    fields: ["Content-Type", "application/json", "Content-Length", length, "X-Request-Id", runId],
    body,
  };
}

type AnswerTo = {
  /** The connection is closed after the answer. */
  readonly isLast: boolean;
  /** The request is a HEAD, so no body may follow the head of the answer. */
  readonly isHead?: boolean;
  /** The Date header line, with its line end. */
  readonly dateLine?: string;
};

/** The answer as bytes. */
export function answerBytes({ status, fields, body }: OwnAnswer, to: AnswerTo): Buffer {
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${to.dateLine ?? ""}`;
  for (let index = 0; index < fields.length; index += 2)
    head += `${fields[index]}: ${fields[index + 1]}\r\n`;
  if (to.isLast) head += "Connection: close\r\n";
  const bytes = Buffer.from(`${head}\r\n`, "latin1");
  return to.isHead === true ? bytes : Buffer.concat([bytes, body]);
}

/** What sending a refusal needs besides the fault. */
export type RefusalParts = {
  readonly deadlines: Deadlines;
  readonly nowMs: number;
  /** The fields that are added to the answer; absent: none. */
  readonly added?: AddedFields;
};

/** Answers with the fault; cuts off an answer that has begun. */
export function sendRefusal(
  response: ServerResponse,
  fault: Fault,
  runId: RunId,
  parts: RefusalParts,
): void {
  if (response.headersSent) response.destroy();
  if (response.destroyed) return;
  const { req: request } = response;
  const { status, fields, body } = refusalOf(fault, runId);
  const added = parts.added ?? nothingAdded;
  fields.push(...added.list);
  if (isAllRead(request)) {
    response.writeHead(status, fields);
    response.end(body);
    return;
  }
  fields.push("Connection", "close");
  response.writeHead(status, fields);
  const linger = new Linger(response, parts.deadlines);
  linger.begin(parts.nowMs);
  // Reading begins once the answer has been sent: earlier answers on the connection may come first.
  response.write(body, () => linger.read());
}

/** True when there is no body, or Node will read the small rest of it. */
function isAllRead(request: IncomingMessage): boolean {
  if (request.complete) return true;
  const { headers } = request;
  // The client waits for permission to send its body, and gets none.
  if (headers.expect !== undefined) return true;
  if (headers["transfer-encoding"] !== undefined) return false;
  return Number(headers["content-length"] ?? 0) <= smallBodyBytes;
}

/**
 * Keeps reading after an answer and drops the input, until the body ends or the time is over, then
 * closes.
 */
class Linger extends Timed {
  readonly #response: ServerResponse;
  readonly #deadlines: Deadlines;

  constructor(response: ServerResponse, deadlines: Deadlines) {
    super();
    this.#response = response;
    this.#deadlines = deadlines;
  }

  begin(nowMs: number): void {
    const { req: request } = this.#response;
    this.#deadlines.set(this, nowMs + lingerMs);
    request.on("end", () => this.#end());
    request.on("error", () => this.#end());
    this.#response.on("close", () => this.#deadlines.clear(this));
  }

  read(): void {
    this.#response.req.resume();
  }

  override onDeadline(): void {
    this.#end();
  }

  #end(): void {
    this.#deadlines.clear(this);
    this.#response.end();
  }
}
