// Splits the engine's stream of a container's output into messages. Pure. The format is described
// at https://docs.docker.com/reference/api/engine/ (attach, "Stream format"). In a log, each
// message begins with its time.

/** One write of the container, at most a line or 16 KiB of one. */
export type LogMessage = {
  readonly stream: "stdout" | "stderr";
  /**
   * The time as the engine writes it: UTC with nine decimals, so that the texts sort in the order
   * of time. Empty in a stream without times.
   */
  readonly time: string;
  readonly bytes: Buffer;
};

/** The head of a frame: one byte with its type, three empty ones, and four with its length. */
const headBytes = 8;
/**
 * The types of frames with output. A frame of another type has an error of the engine itself,
 * without a time, after which the answer ends.
 */
const streamOf: Readonly<Record<number, LogMessage["stream"]>> = { 1: "stdout", 2: "stderr" };
const space = 0x20;

/** Splits chunks into messages, and keeps an incomplete frame until its rest arrives. */
export class LogFrames {
  readonly #hasTimes: boolean;
  #rest: Buffer = Buffer.alloc(0);

  constructor({ hasTimes }: { readonly hasTimes: boolean }) {
    this.#hasTimes = hasTimes;
  }

  /** Returns the messages that end in this chunk. */
  take(chunk: Buffer): LogMessage[] {
    const messages: LogMessage[] = [];
    let bytes = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    while (bytes.length >= headBytes) {
      const end = headBytes + bytes.readUInt32BE(4);
      if (bytes.length < end) break;
      const stream = streamOf[bytes[0] ?? 0];
      if (stream !== undefined)
        messages.push(this.#messageOf(stream, bytes.subarray(headBytes, end)));
      bytes = bytes.subarray(end);
    }
    this.#rest = bytes;
    return messages;
  }

  #messageOf(stream: LogMessage["stream"], bytes: Buffer): LogMessage {
    if (!this.#hasTimes) return { stream, time: "", bytes };
    const at = bytes.indexOf(space);
    return { stream, time: bytes.toString("latin1", 0, at), bytes: bytes.subarray(at + 1) };
  }
}
