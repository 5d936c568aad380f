// The form of a backup: what is written is read again, and what is damaged, cut off or for another
// key is refused.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { PassThrough, Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { test } from "node:test";
import { generateIdentity, identityToRecipient } from "age-encryption";
import { readArchive, writeArchive, type AddPart } from "./archive.ts";

const key = await generateIdentity();
const publicKey = await identityToRecipient(key);
const large = randomBytes(9_000_000);

async function written(addAll: (add: AddPart) => Promise<void>): Promise<Buffer> {
  const to = new PassThrough();
  const [bytes] = await Promise.all([buffer(to), writeArchive(to, [publicKey], addAll)]);
  return bytes;
}

async function* pieces(content: Buffer, length: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < content.length; at += length) yield content.subarray(at, at + length);
}

const archive = await written(async (add) => {
  await add("first", pieces(Buffer.from("one"), 1));
  await add("empty", pieces(Buffer.alloc(0), 1));
  await add("tables/large", pieces(large, 65_537));
});

async function read(bytes: Buffer, privateKey = key): Promise<Map<string, Buffer>> {
  const parts = new Map<string, Buffer>();
  for await (const { name, content } of readArchive(Readable.from([bytes]), [privateKey]))
    parts.set(name, await buffer(content));
  return parts;
}

test("parts are read as they were written, the large ones too", async () => {
  const parts = await read(archive);
  assert.deepEqual([...parts.keys()], ["first", "empty", "tables/large"]);
  assert.equal(String(parts.get("first")), "one");
  assert.equal(parts.get("empty")?.length, 0);
  assert.ok(parts.get("tables/large")?.equals(large));
});

test("parts that nobody reads are skipped", async () => {
  const names: string[] = [];
  for await (const { name } of readArchive(Readable.from([archive]), [key])) names.push(name);
  assert.deepEqual(names, ["first", "empty", "tables/large"]);
});

test("another key, a changed byte and a missing end are refused", async () => {
  await assert.rejects(read(archive, await generateIdentity()), /made for another public key/);
  for (const at of [archive.length - 1, archive.length >> 1, 1_000]) {
    const damaged = Buffer.from(archive);
    damaged[at] = (damaged[at] ?? 0) ^ 1;
    await assert.rejects(read(damaged), /damaged or cut off/, `byte ${at}`);
  }
  for (const length of [archive.length - 1, archive.length >> 1, 70_000])
    await assert.rejects(read(archive.subarray(0, length)), /damaged or cut off/, `${length}`);
  for (const length of [0, 20])
    await assert.rejects(read(archive.subarray(0, length)), /no backup/);
});

test("a source that breaks off says why", async () => {
  const broken = async function* (): AsyncGenerator<Buffer> {
    yield archive.subarray(0, 1_000_000);
    throw new Error("the connection was reset");
  };
  const names: string[] = [];
  const reading = async (): Promise<void> => {
    for await (const { name } of readArchive(Readable.from(broken()), [key])) names.push(name);
  };
  await assert.rejects(reading(), /cannot be read: the connection was reset/);
});

test("an archive that cannot be written to its end has no end", async () => {
  const to = new PassThrough();
  const refused = new Error("no more rows");
  const writing = writeArchive(to, [publicKey], async (add) => {
    await add("first", pieces(large, 65_537));
    throw refused;
  });
  await Promise.all([assert.rejects(buffer(to)), assert.rejects(writing, refused)]);
});

test("a target that fails ends the reading of what was to be written", async () => {
  const to = new PassThrough();
  const full = new Error("the disk is full");
  const writing = writeArchive(to, [publicKey], (add) => add("first", pieces(large, 65_537)));
  to.once("data", () => to.destroy(full));
  await assert.rejects(writing, full);
});
