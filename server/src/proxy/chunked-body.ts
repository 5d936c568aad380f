// Decodes the chunked coding (RFC 9112, 7.1) of a body, strictly, regardless of how its bytes are
// split. Lines are bounded, and chunk extensions are ignored, except the one that says why an
// answer breaks off.
import { readTrailers } from "./answer-head.ts";

/** Receives decoded data: the bytes from `start` to `end`, which are valid only during the call. */
export type TakeData = (bytes: Buffer, start: number, end: number) => void;

type State =
  | "size"
  | "extension"
  | "size-end"
  | "data"
  | "data-end"
  | "data-end-2"
  | "trailers"
  | "done"
  | "bad";

/** Enough for 2^52 - 1 bytes, which a number holds exactly. */
const sizeDigitsMax = 13;
/** The runtime writes up to 900 bytes of an error. */
const extensionBytesMax = 1_024;
const errorCharactersMax = 300;
const trailerBytesMax = 16_384;

/** The decoder of one body. It consumes nothing once `isDone` is true. */
export class ChunkedBody {
  /** The trailers: name, value, …; set once the body is done. */
  trailers: string[] = [];
  #state: State = "size";
  #bytesLeft = 0;
  #digitsRead = 0;
  /** The extension of the latest chunk that has one. */
  #extension = "";
  #trailerText = "";

  get isDone(): boolean {
    return this.#state === "done";
  }

  /**
   * The error of the app's function, which the runtime names before it breaks off the answer; null:
   * it names none.
   */
  get error(): string | null {
    const encoded = /^slipway-error=([!-~]+)$/.exec(this.#extension)?.[1];
    return encoded === undefined ? null : decodedText(encoded);
  }

  get isBad(): boolean {
    return this.#state === "bad";
  }

  /**
   * Continues decoding; returns the offset of the first byte that is not consumed. This is `end`
   * unless the body is done or bad.
   */
  push(bytes: Buffer, start: number, end: number, takeData: TakeData): number {
    let at = start;
    while (at < end) {
      switch (this.#state) {
        case "data": {
          const count = Math.min(this.#bytesLeft, end - at);
          takeData(bytes, at, at + count);
          this.#bytesLeft -= count;
          at += count;
          if (this.#bytesLeft === 0) this.#state = "data-end";
          break;
        }
        case "trailers":
          at = this.#pushTrailers(bytes, at, end);
          break;
        case "done":
        case "bad":
          return at;
        default:
          this.#step(bytes[at] ?? 0);
          at++;
      }
    }
    return at;
  }

  #step(byte: number): void {
    switch (this.#state) {
      case "size":
        this.#stepSize(byte);
        break;
      case "extension":
        if (byte === 13) this.#state = "size-end";
        else if (
          (byte < 32 && byte !== 9) ||
          byte === 127 ||
          this.#extension.length === extensionBytesMax
        )
          this.#state = "bad";
        else this.#extension += String.fromCharCode(byte);
        break;
      case "size-end":
        if (byte !== 10) this.#state = "bad";
        else this.#state = this.#bytesLeft === 0 ? "trailers" : "data";
        this.#digitsRead = 0;
        break;
      case "data-end":
        this.#state = byte === 13 ? "data-end-2" : "bad";
        break;
      default:
        this.#state = byte === 10 ? "size" : "bad";
    }
  }

  #stepSize(byte: number): void {
    const digit = hexDigit(byte);
    if (digit !== -1) {
      this.#bytesLeft = this.#bytesLeft * 16 + digit;
      if (++this.#digitsRead > sizeDigitsMax) this.#state = "bad";
    } else if (this.#digitsRead === 0) {
      this.#state = "bad";
    } else if (byte === 13) {
      this.#state = "size-end";
    } else {
      this.#extension = "";
      this.#state = byte === 59 ? "extension" : "bad";
    }
  }

  #pushTrailers(bytes: Buffer, start: number, end: number): number {
    const earlierText = this.#trailerText;
    const text =
      earlierText + bytes.toString("latin1", start, Math.min(end, start + trailerBytesMax));
    const isEmpty = text.startsWith("\r\n");
    const searchStart = Math.max(0, earlierText.length - 3);
    const emptyLine = isEmpty ? 0 : text.indexOf("\r\n\r\n", searchStart) + 2;
    // `indexOf` returned -1: the empty line has not arrived yet.
    if (!isEmpty && emptyLine === 1) {
      this.#trailerText = text;
      if (text.length >= trailerBytesMax) this.#state = "bad";
      return start + text.length - earlierText.length;
    }
    const trailers = readTrailers(text.slice(0, emptyLine));
    this.#trailerText = "";
    this.#state = trailers === undefined ? "bad" : "done";
    this.trailers = trailers ?? [];
    return start + emptyLine + 2 - earlierText.length;
  }
}

/** Null: the text is empty or not percent-encoded. */
function decodedText(encoded: string): string | null {
  try {
    const text = decodeURIComponent(encoded)
      .replaceAll(/[\p{Cc}\p{Cf}]/gu, " ")
      .trim();
    if (text.length > errorCharactersMax)
      return `${text.slice(0, errorCharactersMax).toWellFormed()}…`;
    return text === "" ? null : text;
  } catch {
    return null;
  }
}

function hexDigit(byte: number): number {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const lower = byte | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
}
