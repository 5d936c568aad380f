// The header of the PROXY protocol, in the bytes of its specification.
import assert from "node:assert/strict";
import { test } from "node:test";
import { clientHeaderBytesMax, readClientHeader } from "./client-header.ts";

const signature = "0d0a0d0a000d0a515549540a";
const bytes = (...hex: readonly string[]): Buffer => Buffer.from(hex.join(""), "hex");
/** 192.0.2.1:56324 to 198.51.100.5:443. */
const inet = "c0000201" + "c6336405" + "dc04" + "01bb";
const inet6 = "20010db8000000000000000000000001" + "20010db8000000000000000000000002" + "dc0401bb";
const mapped = "00000000000000000000ffffc0000201" + "00000000000000000000ffffc6336405" + "dc0401bb";

test("a binary header says the client's address, and its extensions are skipped", () => {
  const rows = [
    [bytes(signature, "21", "11", "000c", inet), "192.0.2.1", 28],
    [bytes(signature, "21", "11", "0013", inet, "04000400000000"), "192.0.2.1", 35],
    [bytes(signature, "21", "21", "0024", inet6), "2001:db8::1", 52],
    [bytes(signature, "21", "21", "0024", mapped), "192.0.2.1", 52],
    // No family, datagrams, and a socket file of the balancer's machine.
    [bytes(signature, "21", "00", "0000"), undefined, 16],
    [bytes(signature, "21", "12", "000c", inet), undefined, 28],
    [bytes(signature, "21", "31", "00d8", "61".repeat(216)), undefined, 232],
  ] as const;
  for (const [header, address, length] of rows)
    assert.deepEqual(readClientHeader(header), { length, client: { address } });
});

test("a balancer that speaks for itself names no client", () => {
  for (const header of [
    bytes(signature, "20", "00", "0000"),
    bytes(signature, "20", "11", "000c", inet),
  ])
    assert.deepEqual(readClientHeader(header), { length: header.length, client: null });
});

test("a line says the client's address", () => {
  const rows = [
    ["PROXY TCP4 192.0.2.1 198.51.100.5 56324 443", "192.0.2.1"],
    ["PROXY TCP6 2001:db8::1 2001:db8::2 56324 443", "2001:db8::1"],
    ["PROXY TCP6 ::ffff:192.0.2.1 ::ffff:198.51.100.5 56324 443", "192.0.2.1"],
    ["PROXY UNKNOWN", undefined],
    [`PROXY UNKNOWN ${"f".repeat(90)}`, undefined],
  ] as const;
  for (const [line, address] of rows) {
    const header = Buffer.from(`${line}\r\n`);
    assert.deepEqual(readClientHeader(header), { length: header.length, client: { address } });
  }
});

test("what follows a header is left, and each beginning of a header is unfinished", () => {
  for (const header of [
    bytes(signature, "21", "11", "0013", inet, "04000400000000"),
    Buffer.from("PROXY TCP4 192.0.2.1 198.51.100.5 56324 443\r\n"),
  ]) {
    for (let length = 0; length < header.length; length++)
      assert.equal(readClientHeader(header.subarray(0, length)), "unfinished", String(length));
    const withMore = Buffer.concat([header, Buffer.from("GET / HTTP/1.1\r\n\r\n")]);
    assert.deepEqual(readClientHeader(withMore), readClientHeader(header));
  }
});

test("what is no header is invalid as soon as that is known", () => {
  const long = (clientHeaderBytesMax - 15).toString(16).padStart(4, "0");
  for (const header of [
    Buffer.from("G"),
    Buffer.from("\r\n\r\nGET"),
    Buffer.from("PROXY TCP4 192.0.2.1\r\n"),
    Buffer.from("PROXY TCP4 2001:db8::1 2001:db8::2 1 2\r\n"),
    Buffer.from("PROXY TCP4 192.0.2.256 198.51.100.5 1 2\r\n"),
    Buffer.from("PROXY TCP4 192.0.2.1 198.51.100.5 1 2\n\n\r\n"),
    Buffer.from(`PROXY UNKNOWN ${"f".repeat(93)}`),
    bytes(signature, "11", "11", "000c", inet),
    bytes(signature, "22", "11", "000c", inet),
    bytes(signature, "21", "11", "000b", inet),
    bytes(signature, "21", "21", "000c", inet),
    bytes(signature, "21", "11", long),
  ])
    assert.equal(readClientHeader(header), "invalid", header.toString("latin1"));
});
