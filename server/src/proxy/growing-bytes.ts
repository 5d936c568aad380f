// Bytes that come piece by piece, in one place that grows: however small the pieces are, they take no more than about
// twice their own room.
import type { Piece } from "./answer-parser.ts";

/** Less is not worth a place of its own: some send byte after byte. */
const placeBytesMin = 1_024;

/** One message's bytes. */
export class GrowingBytes {
  #place: Buffer = Buffer.alloc(0);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** `expectedBytes`: how long it will be in the end as far as is known, which is believed only in part; 0: unknown. */
  add(piece: Piece, expectedBytes: number): void {
    const start = this.#length;
    this.#length += piece.length;
    if (this.#length > this.#place.length) this.#grow(start, expectedBytes);
    if (typeof piece === "string") this.#place.write(piece, start, "latin1");
    else this.#place.set(piece, start);
  }

  /** All that has come; to be asked at the end. */
  bytes(): Buffer {
    return this.#place.subarray(0, this.#length);
  }

  #grow(start: number, expectedBytes: number): void {
    const min = Math.max(this.#length, placeBytesMin, 2 * this.#place.length);
    const isNear = expectedBytes >= this.#length && expectedBytes <= 2 * min;
    const grown = Buffer.allocUnsafeSlow(isNear ? expectedBytes : min);
    this.#place.copy(grown, 0, 0, start);
    this.#place = grown;
  }
}
