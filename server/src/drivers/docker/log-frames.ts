// Takes apart the engine's stream of a container's output. Pure. Format:
// https://docs.docker.com/reference/api/engine/ (attach, "Stream format"); in a log, each message
// with its time in front.

/** One write of the container, at most a line or 16 KiB of one. */
export type LogMessage = {
  readonly stream: "stdout" | "stderr";
  /**
   * As the engine writes it: UTC with nine decimals, so that the order of times is that of the
   * texts. Empty without times.
   */
  readonly time: string;
  readonly bytes: Buffer;
};

const headBytes = 8;
/** The types of frames. One more is the engine's own error, without a time: it ends the answer. */
const streamOf: Readonly<Record<number, LogMessage["stream"]>> = { 1: "stdout", 2: "stderr" };
const space = 0x20;

/** Keeps what is left of a frame until its rest arrives. */
export class LogFrames {
  readonly #hasTimes: boolean;
  #rest: Buffer = Buffer.alloc(0);

  constructor({ hasTimes }: { readonly hasTimes: boolean }) {
    this.#hasTimes = hasTimes;
  }

  /** The messages that are complete with this chunk. */
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
