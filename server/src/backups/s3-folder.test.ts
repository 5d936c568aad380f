// How a bucket is written while its server is busy.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { pipeline } from "node:stream/promises";
import { test, type TestContext } from "node:test";
import { Secret } from "#lib/secret.ts";
import { until } from "#test/support/until.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { S3Folder } from "./s3-folder.ts";

/** An object store that answers 503 to the first `busy` parts; counts what it is asked. */
async function busyStore(t: TestContext, busy: number) {
  const clock = new VirtualClock();
  const asked = { partsAtMs: [] as number[], completed: 0, aborted: 0 };
  const answerTo = (method: string, query: URLSearchParams, response: ServerResponse): string => {
    if (method === "DELETE") asked.aborted++;
    else if (query.has("partNumber")) {
      asked.partsAtMs.push(clock.monotonicMs());
      if (asked.partsAtMs.length <= busy) response.statusCode = 503;
      else response.setHeader("etag", '"part"');
    } else if (query.has("uploadId")) {
      asked.completed++;
      return "<CompleteMultipartUploadResult><ETag>all</ETag></CompleteMultipartUploadResult>";
    } else {
      return "<InitiateMultipartUploadResult><UploadId>one</UploadId></InitiateMultipartUploadResult>";
    }
    return "";
  };
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? "", "http://store");
    request.resume();
    request.on("end", () => response.end(answerTo(request.method ?? "", searchParams, response)));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const folder = new S3Folder(
    {
      endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      region: "auto",
      accessKeyId: new Secret("any"),
      secretAccessKey: new Secret("any"),
    },
    { bucket: "own", prefix: "" },
    clock,
  );
  return { asked, clock, folder };
}

/** Moves the clock until the work is over; the work's result. */
async function played<T>(clock: VirtualClock, work: Promise<T>): Promise<PromiseSettledResult<T>> {
  const results: PromiseSettledResult<T>[] = [];
  void Promise.allSettled([work]).then((settled) => results.push(...settled));
  return await until("it is over", async () => {
    await clock.advance(500);
    return results[0];
  });
}

test("a part that a busy server refuses is sent again after a pause, not at once", async (t) => {
  const { asked, clock, folder } = await busyStore(t, 1);
  const result = await played(
    clock,
    folder.write("one.age", (to) => pipeline(["content"], to)),
  );
  assert.deepEqual(result, { status: "fulfilled", value: 7 });
  const [first = 0, second = 0] = asked.partsAtMs;
  assert.ok(second - first >= 1_000, `${second - first} ms`);
  assert.deepEqual([asked.partsAtMs.length, asked.completed, asked.aborted], [2, 1, 0]);
});

test("a server that stays busy fails the backup with its answer, and keeps no parts", async (t) => {
  const { asked, clock, folder } = await busyStore(t, 100);
  const result = await played(
    clock,
    folder.write("one.age", (to) => pipeline(["content"], to)),
  );
  assert.match(
    result.status === "rejected" ? String(result.reason) : "it was written",
    /The bucket own cannot be used: the object store answered 503/,
  );
  assert.deepEqual([asked.partsAtMs.length, asked.completed, asked.aborted], [4, 0, 1]);
});
