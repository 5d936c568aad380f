// A client that sends exactly the HTTP/2 frames that it is given, for what no library would send.
import { once } from "node:events";
import type { TestContext } from "node:test";
import { connect, type TLSSocket } from "node:tls";

/** Types of frames (RFC 9113, 6). */
export const frameTypes = {
  data: 0,
  headers: 1,
  reset: 3,
  settings: 4,
  goAway: 7,
  continuation: 9,
};
/** Flags of frames with headers: the last frame of the request, and of its head. */
export const flags = { endStream: 1, endHeaders: 4 };

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const frameHeadBytes = 9;

/** One frame that the server has sent. */
export type Frame = { readonly type: number; readonly stream: number; readonly payload: Buffer };

/** The bytes of one frame. */
export function frame(type: number, flag: number, stream: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(frameHeadBytes);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flag, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** A block of literal fields that are not compressed (RFC 7541, 6.2.3). */
export function fieldBlock(fields: readonly (readonly [string, string])[]): Buffer {
  return Buffer.concat(
    fields.flatMap(([name, value]) => [Buffer.from([0x10]), literal(name), literal(value)]),
  );
}

function literal(text: string): Buffer {
  const bytes = Buffer.from(text, "latin1");
  const length: number[] = [];
  if (bytes.length < 127) length.push(bytes.length);
  else {
    length.push(127);
    let rest = bytes.length - 127;
    for (; rest >= 128; rest = Math.floor(rest / 128)) length.push((rest % 128) + 128);
    length.push(rest);
  }
  return Buffer.concat([Buffer.from(length), bytes]);
}

/** A connection whose handshake is done. */
export class RawHttp2 {
  readonly socket: TLSSocket;
  readonly frames: Frame[] = [];
  isClosed = false;
  #bytes = Buffer.alloc(0);

  constructor(socket: TLSSocket) {
    this.socket = socket;
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.on("close", () => (this.isClosed = true));
    socket.on("error", () => undefined);
  }

  send(...frames: readonly Buffer[]): void {
    if (!this.socket.destroyed) this.socket.write(Buffer.concat(frames));
  }

  /** Sends the head of a request, which ends with it. */
  request(stream: number, fields: readonly (readonly [string, string])[]): void {
    const flag = flags.endHeaders + flags.endStream;
    this.send(frame(frameTypes.headers, flag, stream, fieldBlock(fields)));
  }

  /** The error code with which the server has reset the stream; undefined: it has not. */
  resetCode(stream: number): number | undefined {
    return this.frames
      .find((one) => one.type === frameTypes.reset && one.stream === stream)
      ?.payload.readUInt32BE(0);
  }

  /** The error code with which the server ends the connection; undefined: it does not. */
  get goAwayCode(): number | undefined {
    return this.frames.find(({ type }) => type === frameTypes.goAway)?.payload.readUInt32BE(4);
  }

  #read(chunk: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    while (this.#bytes.length >= frameHeadBytes) {
      const end = frameHeadBytes + this.#bytes.readUIntBE(0, 3);
      if (this.#bytes.length < end) return;
      this.frames.push({
        type: this.#bytes.readUInt8(3),
        stream: this.#bytes.readUInt32BE(5),
        payload: this.#bytes.subarray(frameHeadBytes, end),
      });
      this.#bytes = this.#bytes.subarray(end);
    }
  }
}

/** Connects, and sends the beginning of a connection. */
export async function connectRawHttp2(t: TestContext, port: number, ca: string): Promise<RawHttp2> {
  const options = { host: "localhost", port, ca, servername: "localhost", ALPNProtocols: ["h2"] };
  const socket = connect(options);
  t.after(() => socket.destroy());
  const client = new RawHttp2(socket);
  await once(socket, "secureConnect");
  client.send(Buffer.from(preface), frame(frameTypes.settings, 0, 0, Buffer.alloc(0)));
  return client;
}
