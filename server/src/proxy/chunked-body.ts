// Decodes the chunked coding (RFC 9112, 7.1) of a body, strictly, regardless of how its bytes are
// split. Lines are bounded, and chunk extensions are ignored, except the one that says why an
// answer breaks off.
import { readTrailers } from "./answer-head.ts";

/** Receives decoded data: the bytes from `start` to `end`, which are valid only during the call. */
export type TakeData = (bytes: Buffer, start: number, end: number) => void;

/**
 * What the next byte belongs to. `extension`: what follows the size of a chunk in its line.
 * `size-end`: the line feed of that line. `data-end` and `data-end-2`: the line end after the data.
 */
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
/** The runtime cuts off the text of an error soon after its 900th byte. */
const extensionBytesMax = 1_024;
/** A longer error is cut off, since it becomes part of a message to the caller. */
const errorCharactersMax = 300;
/** The limit of all trailers together, which are kept until their end has arrived. */
const trailerBytesMax = 16_384;

/** The codes of characters. */
const tab = 9;
const lineFeed = 10;
const carriageReturn = 13;
const space = 32;
const zero = 48;
const nine = 57;
const semicolon = 59;
const lowerA = 97;
const lowerF = 102;
const del = 127;
/** With this bit, the code of a capital letter becomes the code of the small letter. */
const lowerCaseBit = 32;

/** The decoder of one body. It consumes nothing once `isDone` is true. */
export class ChunkedBody {
  /** The trailers: name, value, …; set once the body is done. */
  trailers: string[] = [];
  #state: State = "size";
  /** How many bytes of the chunk are to come; while its size is read, the value so far. */
  #bytesLeft = 0;
  /** How many digits of that size have been read. */
  #digitsRead = 0;
  /** The extension of the latest chunk that has one. */
  #extension = "";
  /** The beginning of trailers whose end has not arrived yet. */
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
        this.#stepExtension(byte);
        break;
      case "size-end":
        if (byte !== lineFeed) this.#state = "bad";
        else this.#state = this.#bytesLeft === 0 ? "trailers" : "data";
        this.#digitsRead = 0;
        break;
      case "data-end":
        this.#state = byte === carriageReturn ? "data-end-2" : "bad";
        break;
      // This is the state `data-end-2`.
      default:
        this.#state = byte === lineFeed ? "size" : "bad";
    }
  }

  #stepExtension(byte: number): void {
    const isControl = (byte < space && byte !== tab) || byte === del;
    if (byte === carriageReturn) this.#state = "size-end";
    else if (isControl || this.#extension.length === extensionBytesMax) this.#state = "bad";
    else this.#extension += String.fromCharCode(byte);
  }

  #stepSize(byte: number): void {
    const digit = hexDigit(byte);
    if (digit !== -1) {
      this.#bytesLeft = this.#bytesLeft * 16 + digit;
      this.#digitsRead++;
      if (this.#digitsRead > sizeDigitsMax) this.#state = "bad";
    } else if (this.#digitsRead === 0) {
      this.#state = "bad";
    } else if (byte === carriageReturn) {
      this.#state = "size-end";
    } else {
      this.#extension = "";
      this.#state = byte === semicolon ? "extension" : "bad";
    }
  }

  #pushTrailers(bytes: Buffer, start: number, end: number): number {
    const earlierText = this.#trailerText;
    // Where `text` would begin in `bytes`; negative when its beginning came with earlier bytes.
    const textStart = start - earlierText.length;
    const text =
      earlierText + bytes.toString("latin1", start, Math.min(end, start + trailerBytesMax));
    const trailersEnd = trailersEndIn(text, earlierText.length);
    if (trailersEnd === -1) {
      this.#trailerText = text;
      if (text.length >= trailerBytesMax) this.#state = "bad";
      return textStart + text.length;
    }
    const trailers = readTrailers(text.slice(0, trailersEnd));
    this.#trailerText = "";
    this.#state = trailers === undefined ? "bad" : "done";
    this.trailers = trailers ?? [];
    // The empty line ends the body.
    return textStart + trailersEnd + 2;
  }
}

/**
 * Where the trailers end and the empty line begins; -1: it has not arrived yet. The first
 * `searched` characters have already been searched.
 */
function trailersEndIn(text: string, searched: number): number {
  if (text.startsWith("\r\n")) return 0;
  // Up to three of the four characters may be among those that were searched before.
  const lastLineEnd = text.indexOf("\r\n\r\n", Math.max(0, searched - 3));
  return lastLineEnd === -1 ? -1 : lastLineEnd + 2;
}

/**
 * The text, shortened and without control characters; null: it is empty or not percent-encoded.
 */
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

/** The value of a hexadecimal digit; -1: it is none. */
function hexDigit(byte: number): number {
  if (byte >= zero && byte <= nine) return byte - zero;
  const lower = byte | lowerCaseBit;
  return lower >= lowerA && lower <= lowerF ? lower - lowerA + 10 : -1;
}
