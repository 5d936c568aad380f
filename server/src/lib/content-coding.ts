// Decodes the content codings of an answer (RFC 9110, 8.4), within a bound: a few bytes may expand
// to gigabytes.
import { promisify } from "node:util";
import * as zlib from "node:zlib";

type Decode = (bytes: Buffer, bytesMax: number) => Promise<Buffer>;

/** Apps use one coding. An answer with more codings than this is an attempt to waste time. */
const codingsMax = 3;
/**
 * The largest window that senders may use (RFC 9659): 8 MB. Without this limit, a frame of some
 * bytes can demand 128 MB.
 */
const zstdWindowLogMax = 23;

const gunzip = promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.gunzip);
const inflate = promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.inflate);
const inflateRaw = promisify<Buffer, zlib.ZlibOptions, Buffer>(zlib.inflateRaw);
const brotli = promisify<Buffer, zlib.BrotliOptions, Buffer>(zlib.brotliDecompress);
const zstd = promisify<Buffer, zlib.ZstdOptions, Buffer>(zlib.zstdDecompress);

const ungzip: Decode = (bytes, maxOutputLength) => gunzip(bytes, { maxOutputLength });
const undeflate: Decode = (bytes, maxOutputLength) => {
  const decode = isZlib(bytes) ? inflate : inflateRaw;
  return decode(bytes, { maxOutputLength });
};
const params = { [zlib.constants.ZSTD_d_windowLogMax]: zstdWindowLogMax };
const decoders: ReadonlyMap<string, Decode> = new Map<string, Decode>([
  ["gzip", ungzip],
  ["x-gzip", ungzip],
  ["deflate", undeflate],
  ["br", (bytes, maxOutputLength) => brotli(bytes, { maxOutputLength })],
  ["zstd", (bytes, maxOutputLength) => zstd(bytes, { maxOutputLength, params })],
  ["identity", (bytes) => Promise.resolve(bytes)],
]);

/**
 * Decodes the codings that `contentEncoding` lists. Returns null when a coding is unknown, when the
 * bytes are not encoded with it, or when the result of any step would be longer than `bytesMax`.
 */
export async function withoutCodings(
  bytes: Buffer,
  contentEncoding: string,
  bytesMax: number,
): Promise<Buffer | null> {
  const names = contentEncoding.split(",").map((name) => name.trim().toLowerCase());
  if (names.length > codingsMax) return null;
  let decoded = bytes;
  // The last coding was applied last, so it is decoded first.
  for (const name of names.toReversed()) {
    const decode = decoders.get(name);
    if (decode === undefined) return null;
    try {
      decoded = await decode(decoded, bytesMax);
    } catch {
      return null;
    }
  }
  return decoded;
}

/**
 * Whether the bytes have zlib's head: the low four bits of the first byte are 8, and the first two
 * bytes as one number are a multiple of 31. Some apps send `deflate` without this head, against the
 * standard.
 */
function isZlib(bytes: Buffer): boolean {
  if (bytes.length < 2) return false;
  const lowBits = bytes.readUInt8(0) & 0x0f;
  return lowBits === 8 && bytes.readUInt16BE(0) % 31 === 0;
}
