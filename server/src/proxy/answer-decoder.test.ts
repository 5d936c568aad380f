// Whose compressed answers are decoded first.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import type { ProjectId } from "#lib/ids.ts";
import type { CollectedAnswer } from "./answer-collector.ts";
import { AnswerDecoder } from "./answer-decoder.ts";

const mebibyte = 1_048_576;

test("projects of one owner leave a place to the answers of others", async () => {
  const ownerKeyOf = (id: ProjectId): Promise<string> =>
    Promise.resolve(id === "p-other" ? id : "somebody");
  const decoder = new AnswerDecoder(16 * mebibyte, ownerKeyOf);
  const body = gzipSync(Buffer.alloc(8 * mebibyte));
  const answer = {
    body,
    bodyBytes: body.length,
    contentFields: { "content-encoding": "gzip" },
  } as unknown as CollectedAnswer;
  let decoded = 0;
  const theirs = Array.from({ length: 20 }, async (_, index) => {
    const readable = await decoder.readable(answer, `p-${index}` as ProjectId);
    decoded++;
    return readable;
  });
  const other = await decoder.readable(answer, "p-other" as ProjectId);
  assert.equal(other.bodyBytes, 8 * mebibyte);
  assert.ok(decoded < 5, `${decoded} came first`);
  for (const { bodyBytes } of await Promise.all(theirs)) assert.equal(bodyBytes, 8 * mebibyte);
});
