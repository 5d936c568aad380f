// Recognizes a plain call: a request whose head arrives in one piece, is strict HTTP/1.1, asks
// nothing of the connection, is for an app, and has a small body or none. Everything else goes to
// Node's HTTP server, so being strict here loses nothing.
import { METHODS } from "node:http";
import { fieldLinesForm, tokenForm } from "./fields.ts";
import { RequestFields } from "./request-fields.ts";

/** One plain call. */
export type PlainRequest = {
  readonly method: string;
  /** The target, which begins with `/v4/`. */
  readonly url: string;
  readonly fields: RequestFields;
  /** The whole body, one character per byte. */
  readonly body: string;
};

/** The first line, such as `GET /v4/… HTTP/1.1`, without the line end. */
const lineForm = new RegExp(`^${tokenForm} /v4/[\\x21-\\x7e]* HTTP/1\\.1$`);
const linesForm = new RegExp(`^${fieldLinesForm}$`);
/** The maximum length of a request with its body; Node's server streams larger ones. */
const plainBytesMax = 65_536;
/** Node's server takes longer heads, up to its own limit. */
const headBytesMax = 16_384;
/**
 * Field lines of longer requests are not remembered: the connection would keep the whole text that
 * contains them in memory.
 */
const rememberedBytesMax = 8_192;
/** The methods of Node's server, except the one that asks for a tunnel. */
const methods: ReadonlySet<string> = new Set(METHODS.filter((method) => method !== "CONNECT"));
const version = " HTTP/1.1";

/**
 * Parses the calls of one connection; most clients repeat the same field lines, which are then
 * parsed once.
 */
export class PlainReader {
  /** The method of the latest call. */
  #method = "";
  /** The remembered field lines, and what they were parsed to. */
  #lines = "";
  #fields: RequestFields | null = null;

  /**
   * Parses a call; `unfinished` when only the end of its body is missing; null when `chunk` is not
   * exactly one plain call.
   */
  read(chunk: Buffer): PlainRequest | "unfinished" | null {
    if (chunk.length > plainBytesMax) return null;
    const text = chunk.toString("latin1");
    const headEnd = text.indexOf("\r\n\r\n");
    if (headEnd === -1 || headEnd > headBytesMax) return null;
    const lineEnd = text.indexOf("\r\n");
    const line = text.slice(0, lineEnd);
    if (!lineForm.test(line)) return null;
    // The field lines include the last line end, but not the empty line.
    const fields = this.#fieldsOf(text.slice(lineEnd + 2, headEnd + 2), text.length);
    if (fields === null) return null;
    const bodyStart = headEnd + 4;
    const bodyBytes = text.length - bodyStart;
    // Less than zero: the beginning of another request follows the body.
    const bytesLeft = Math.max(0, fields.contentLength) - bodyBytes;
    if (bytesLeft < 0 || chunk.length + bytesLeft > plainBytesMax) return null;
    const methodEnd = line.indexOf(" ");
    const method = line.slice(0, methodEnd);
    if (method !== this.#method && !methods.has(method)) return null;
    this.#method = method;
    const url = line.slice(methodEnd + 1, line.length - version.length);
    if (bytesLeft > 0) return "unfinished";
    return { method, url, fields, body: text.slice(bodyStart) };
  }

  /** The parsed field lines; null: the request is not a plain call. */
  #fieldsOf(lines: string, requestBytes: number): RequestFields | null {
    if (this.#fields !== null && lines === this.#lines) return this.#fields;
    if (!linesForm.test(lines)) return null;
    const fields = new RequestFields(lines);
    if (fields.isSpecial || fields.refused !== null || fields.host === undefined) return null;
    if (requestBytes <= rememberedBytesMax) {
      this.#lines = lines;
      this.#fields = fields;
    }
    return fields;
  }
}
