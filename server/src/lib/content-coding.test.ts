// What apps compress is read, whatever they compress it with, and a bomb does not go off.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as zlib from "node:zlib";
import { withoutCodings } from "./content-coding.ts";

const text = Buffer.from(JSON.stringify({ text: "wörter ".repeat(500) }));
const coded = {
  gzip: zlib.gzipSync(text),
  "x-gzip": zlib.gzipSync(text),
  deflate: zlib.deflateSync(text),
  br: zlib.brotliCompressSync(text),
  zstd: zlib.zstdCompressSync(text),
  identity: text,
  GZIP: zlib.gzipSync(text),
  "deflate, gzip": zlib.gzipSync(zlib.deflateSync(text)),
  "gzip,identity , br": zlib.brotliCompressSync(zlib.gzipSync(text)),
};

test("every coding that apps use is undone, also several", async () => {
  for (const [coding, bytes] of Object.entries(coded)) {
    assert.deepEqual(await withoutCodings(bytes, coding, text.length), text, coding);
  }
  assert.deepEqual(
    await withoutCodings(zlib.deflateRawSync(text), "deflate", text.length),
    text,
    "without a head",
  );
});

test("what is not in its coding, in an unknown one, or cut off is not read", async () => {
  const gzip = zlib.gzipSync(text);
  for (const [bytes, coding] of [
    [text, "gzip"],
    [gzip, "br"],
    [gzip, "zstd"],
    [gzip, "deflate"],
    [gzip.subarray(0, -20), "gzip"],
    [gzip, "compress"],
    [gzip, "aes128gcm, gzip"],
    [gzip, ""],
    [gzip, "identity, identity, identity, gzip"],
  ] as const) {
    assert.equal(await withoutCodings(bytes, coding, 1_000_000), null, coding);
  }
});

test("a bomb is not decoded beyond the bound, also inside another coding", async () => {
  const zeros = Buffer.alloc(50_000_000);
  for (const [coding, bytes] of Object.entries({
    gzip: zlib.gzipSync(zeros),
    deflate: zlib.deflateSync(zeros),
    br: zlib.brotliCompressSync(zeros, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } }),
    zstd: zlib.zstdCompressSync(zeros),
    "gzip, gzip": zlib.gzipSync(zlib.gzipSync(zeros)),
  })) {
    assert.ok(bytes.length < 100_000, coding);
    assert.equal(await withoutCodings(bytes, coding, 1_000_000), null, coding);
  }
});
