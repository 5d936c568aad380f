// A buffer that grows piece by piece. It takes up at most about twice the size of all pieces, or
// four times if an expected length is believed that never arrives, even if each piece is small.
import type { Piece } from "./answer-parser.ts";

/** The first buffer has at least this size, since some peers send byte by byte. */
const bufferBytesMin = 1_024;

/** The bytes of one message. */
export class GrowingBytes {
  #buffer: Buffer = Buffer.alloc(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** `expectedBytes`: the expected total length, which is only partly trusted; 0: unknown. */
  add(piece: Piece, expectedBytes: number): void {
    const start = this.#length;
    this.#length += piece.length;
    if (this.#length > this.#buffer.length) this.#grow(start, expectedBytes);
    if (typeof piece === "string") this.#buffer.write(piece, start, "latin1");
    else this.#buffer.set(piece, start);
  }

  /** All bytes received; call it at the end. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  /** Makes space for the new length; `start`: how many bytes the buffer has now. */
  #grow(start: number, expectedBytes: number): void {
    const min = Math.max(this.#length, bufferBytesMin, 2 * this.#buffer.length);
    // The expected length is believed only if it is at most twice what would be allocated anyway.
    const isNear = expectedBytes >= this.#length && expectedBytes <= 2 * min;
    const grown = Buffer.allocUnsafeSlow(isNear ? expectedBytes : min);
    this.#buffer.copy(grown, 0, 0, start);
    this.#buffer = grown;
  }
}
