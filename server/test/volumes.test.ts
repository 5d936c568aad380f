// Files of volumes through the API: the conversation of clients, ranges, sizes, and what survives a
// cut.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { open } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import {
  begunVolumeUpload,
  fileList,
  partBytes,
  volumeList,
} from "@slipway/contract/volume-routes.ts";
import { sendBytes } from "#api/file-answer.ts";
import { StorageFiles } from "#drivers/storage-files.ts";
import { removeOld } from "#lib/retention.ts";
import { oldVolumeRows, readKept } from "#volumes/volume-store.ts";
import { startManagementApi, type ApiAnswer, type Json } from "#test/support/management-api.ts";
import { volumesOf } from "#test/support/management-platform.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { until } from "#test/support/until.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";

type Begun = ReturnType<typeof begunVolumeUpload.parse>;

async function stage(t: TestContext, options: Parameters<typeof startManagementApi>[1] = {}) {
  const api = await startManagementApi(t, options);
  const folder = join(api.storageDir, api.projectId);
  const volume = `/v2/projects/${api.projectId}/volumes/default`;
  const begin = async (file_path: string, part_count: number): Promise<Begun> => {
    const { status, body } = await api.call("POST", `${volume}/cp/initialize?region=us-east-1`, {
      body: { file_path, part_count, region: "us-east-1" },
    });
    assert.equal(status, 200, JSON.stringify(body));
    return begunVolumeUpload.parse(body);
  };
  const complete = async (
    upload_id: string,
    file_path: string,
    etags: readonly (string | null)[],
  ) =>
    await api.call("POST", `${volume}/cp/complete?region=us-east-1`, {
      body: {
        upload_id,
        file_path,
        region: "us-east-1",
        parts: etags.map((etag, index) => ({ part_number: index + 1, etag })),
      },
    });
  const upload = async (path: string, content: Buffer): Promise<ApiAnswer> => {
    const count = Math.max(1, Math.ceil(content.length / partBytes));
    const begun = await begin(path, count);
    // The last first: parts come in any order.
    const etags: (string | null)[] = [];
    for (const { part_number: number, url } of begun.parts.toReversed()) {
      const part = await put(url, content.subarray((number - 1) * partBytes, number * partBytes));
      assert.equal(part.status, 200, JSON.stringify(part.body));
      etags.unshift(part.etag);
    }
    return await complete(begun.upload_id, path, etags);
  };
  const addressOf = async (path: string): Promise<string> => {
    const answer = await api.call(
      "GET",
      `${volume}/download?region=x&file_path=${encodeURIComponent(path)}`,
    );
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    return answer.body.url;
  };
  const list = async (query = "") =>
    fileList.parse((await api.call("GET", `${volume}/ls?region=x${query}`)).body);
  const remove = (path: string) =>
    api.call("DELETE", `${volume}/rm?region=x&file_path=${encodeURIComponent(path)}`);
  return { api, folder, volume, begin, complete, upload, addressOf, list, remove };
}

/** As clients send it: without a token. */
async function put(
  url: string,
  body: Buffer,
): Promise<{ status: number; etag: string | null; body: Json }> {
  const headers = { "content-type": "application/octet-stream" };
  const response = await fetch(url, { method: "PUT", headers, body: new Uint8Array(body) });
  return {
    status: response.status,
    etag: response.headers.get("etag"),
    body: await response.json(),
  };
}

/** Without a Content-Length. */
async function putChunked(url: string, body: Buffer): Promise<{ status: number; body: Json }> {
  const stream = new Blob([new Uint8Array(body)]).stream();
  const response = await fetch(url, { method: "PUT", body: stream, duplex: "half" } as RequestInit);
  return { status: response.status, body: await response.json() };
}

async function get(url: string, headers: Record<string, string> = {}) {
  const response = await fetch(url, { headers });
  return {
    status: response.status,
    headers: response.headers,
    bytes: Buffer.from(await response.arrayBuffer()),
  };
}

test("a file goes up in parts of any order and comes down the same", async (t) => {
  const { upload, addressOf, list, folder } = await stage(t);
  const content = randomBytes(2 * partBytes + 1234);
  assert.equal((await upload("/models/large.bin", content)).status, 200);
  assert.ok(readFileSync(join(folder, "models/large.bin")).equals(content));
  const { status, headers, bytes } = await get(await addressOf("models/large.bin"));
  assert.deepEqual([status, bytes.equals(content)], [200, true]);
  assert.deepEqual(
    ["content-type", "content-disposition", "x-content-type-options"].map((name) =>
      headers.get(name),
    ),
    ["application/octet-stream", "attachment; filename*=UTF-8''large.bin", "nosniff"],
  );
  const [models] = await list();
  assert.deepEqual([models?.name, models?.is_folder], ["models", true]);
  const [file] = await list("&dir=models");
  assert.deepEqual(
    [file?.name, file?.is_folder, file?.size_bytes],
    ["large.bin", false, content.length],
  );
});

test("an empty file needs no part, or an empty one", async (t) => {
  const { begin, complete, upload, folder } = await stage(t);
  const begun = await begin("empty", 0);
  assert.equal((await complete(begun.upload_id, "empty", [])).status, 200);
  assert.equal((await upload("also-empty", Buffer.alloc(0))).status, 200);
  assert.deepEqual(
    ["empty", "also-empty"].map((name) => statSync(join(folder, name)).size),
    [0, 0],
  );
});

test("complete is refused until every part has arrived with its etag, and answered again", async (t) => {
  const { begin, complete, folder } = await stage(t);
  const begun = await begin("f", 2);
  const [one, two] = begun.parts.map(({ url }) => url);
  const first = await put(one ?? "", Buffer.alloc(partBytes, "a"));
  const messageOf = async (uploadId: string, path: string, etags: readonly (string | null)[]) => {
    const { status, body } = await complete(uploadId, path, etags);
    return [status, body.message];
  };
  assert.deepEqual(await messageOf(begun.upload_id, "f", [first.etag, '"x"']), [
    409,
    "Part 2 has not arrived: send it again.",
  ]);
  const short = await putChunked(one ?? "", Buffer.alloc(5));
  assert.deepEqual(
    [short.status, /every part before the last/.test(short.body.message)],
    [400, true],
  );
  const second = await put(two ?? "", Buffer.from("end"));
  const refused = await messageOf(begun.upload_id, "f", [first.etag, second.etag]);
  assert.deepEqual(
    refused,
    [409, "Part 1 has not arrived: send it again."],
    "a part that failed is not there any more",
  );
  const again = await put(one ?? "", Buffer.alloc(partBytes, "b"));
  assert.equal(
    (await complete(begun.upload_id, "f", [first.etag, second.etag])).status,
    409,
    "of what was replaced",
  );
  assert.equal((await complete(begun.upload_id, "f", [again.etag])).status, 400);
  assert.equal((await complete(begun.upload_id, "other", [again.etag, second.etag])).status, 400);
  assert.equal(existsSync(folder), false, "nothing is in the volume before");
  assert.equal((await complete(begun.upload_id, "f", [again.etag, second.etag])).status, 200);
  assert.equal(
    (await complete(begun.upload_id, "/f", [again.etag, second.etag])).status,
    200,
    "repeated",
  );
  assert.equal(readFileSync(join(folder, "f"), "latin1"), `${"b".repeat(partBytes)}end`);
  const late = await put(one ?? "", Buffer.alloc(partBytes, "c"));
  assert.deepEqual(
    [late.status, late.body.message],
    [409, "The upload is complete: begin another one."],
  );
  assert.equal(readFileSync(join(folder, "f"), "latin1")[0], "b", "a late part changes nothing");
});

test("a complete that was killed after the file took its place is answered when it is repeated", async (t) => {
  const { begin, complete, folder, api } = await stage(t);
  const begun = await begin("f", 1);
  const part = await put(begun.parts[0]?.url ?? "", Buffer.from("content"));
  mkdirSync(folder);
  renameSync(join(api.storageDir, ".incoming", begun.upload_id), join(folder, "f"));
  const again = await put(begun.parts[0]?.url ?? "", Buffer.from("content"));
  assert.equal(again.status, 409, "a part would begin another file");
  assert.match(again.body.message, /: complete the upload, or begin another one\.$/);
  assert.equal((await complete(begun.upload_id, "f", [part.etag])).status, 200);
  assert.equal(readFileSync(join(folder, "f"), "utf8"), "content");
  const entries = api.db
    .selectFrom("audit_log")
    .select("outcome")
    .where("action", "=", "volume.upload");
  assert.deepEqual(await entries.execute(), [{ outcome: "success" }]);
});

test("a part that is cut off can be sent again; a larger one and unknown addresses are refused", async (t) => {
  const { begin, complete, folder, api } = await stage(t);
  const begun = await begin("f", 1);
  const url = begun.parts[0]?.url ?? "";
  const { port, pathname } = new URL(url);
  const socket = connect(Number(port), "127.0.0.1");
  const head = `PUT ${pathname} HTTP/1.1\r\nhost: a\r\ncontent-type: application/octet-stream\r\ncontent-length: 1000\r\n\r\n`;
  socket.write(`${head}${"x".repeat(500)}`);
  await until("it begins", () => existsSync(join(api.storageDir, ".incoming", begun.upload_id)));
  assert.equal((await complete(begun.upload_id, "f", ['"x"'])).status, 409, "while a part arrives");
  const part = await put(url, Buffer.from("whole"));
  assert.equal(part.status, 200, "it ends the earlier request");
  socket.destroy();
  assert.equal((await put(url, Buffer.alloc(partBytes + 1))).status, 413);
  const last = await put(url, Buffer.from("good"));
  assert.equal((await complete(begun.upload_id, "f", [last.etag])).status, 200);
  assert.equal(readFileSync(join(folder, "f"), "utf8"), "good");
  for (const wrong of [
    url.replace(/\/1$/, "/2"),
    url.replace(/\/1$/, "/0"),
    url.replace(/\/1$/, "/1e0"),
    `${url.slice(0, -5)}x/1`,
  ])
    assert.equal((await put(wrong, Buffer.from("x"))).status, 404, wrong);
});

test("ranges of a file are sent, and a range that it does not have is refused", async (t) => {
  const { upload, addressOf, folder } = await stage(t);
  await upload("f", Buffer.from("0123456789"));
  const url = await addressOf("f");
  const cases: readonly (readonly [string, number, string, string | null])[] = [
    ["bytes=0-3", 206, "0123", "bytes 0-3/10"],
    ["bytes=7-", 206, "789", "bytes 7-9/10"],
    ["bytes=-2", 206, "89", "bytes 8-9/10"],
    ["bytes=5-100", 206, "56789", "bytes 5-9/10"],
    ["bytes=-100", 206, "0123456789", "bytes 0-9/10"],
    ["bytes=0-0,2-3", 200, "0123456789", null],
    ["bytes=3-2", 200, "0123456789", null],
    ["lines=1-2", 200, "0123456789", null],
  ];
  for (const [range, status, text, contentRange] of cases) {
    const answer = await get(url, { range });
    assert.deepEqual(
      [answer.status, answer.bytes.toString(), answer.headers.get("content-range")],
      [status, text, contentRange],
      range,
    );
  }
  for (const range of ["bytes=10-", "bytes=-0"]) {
    const beyond = await get(url, { range });
    assert.deepEqual(
      [beyond.status, beyond.headers.get("content-range")],
      [416, "bytes */10"],
      range,
    );
  }
  const head = await fetch(url, { method: "HEAD" });
  assert.deepEqual(
    [head.status, head.headers.get("content-length"), await head.text()],
    [200, "10", ""],
  );
  const etag = head.headers.get("etag") ?? "";
  assert.equal((await get(url, { range: "bytes=1-2", "if-range": etag })).status, 206);
  writeFileSync(join(folder, "f"), "changed");
  assert.equal(
    (await get(url, { range: "bytes=1-2", "if-range": etag })).status,
    200,
    "it is another file now",
  );
  const empty = await upload("empty", Buffer.alloc(0));
  assert.equal(empty.status, 200);
  const nothing = await get(await addressOf("empty"));
  assert.deepEqual(
    [nothing.status, nothing.bytes.length, nothing.headers.get("content-length")],
    [200, 0, "0"],
  );
});

test("a download of a file that becomes shorter breaks off, and never looks whole", async (t) => {
  const { addressOf, folder } = await stage(t);
  mkdirSync(folder);
  const path = join(folder, "f");
  writeFileSync(path, Buffer.alloc(50_000_000));
  const response = await fetch(await addressOf("f"));
  const reader = response.body?.getReader() ?? assert.fail();
  await reader.read();
  truncateSync(path, 1000);
  await assert.rejects(async () => {
    let isDone = false;
    while (!isDone) isDone = (await reader.read()).done;
  });
});

test("a client that takes nothing of a file for a while is disconnected, and the file closed", async (t) => {
  const path = join(temporaryFolder(t, "slow"), "f");
  writeFileSync(path, "");
  truncateSync(path, 50_000_000);
  const handle = await open(path);
  t.after(() => handle.close());
  const clock = new VirtualClock();
  const server = createServer().listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const served = new Promise<{ response: ServerResponse; isEnded: Promise<void> }>((resolve) => {
    server.on("request", (request, response) => {
      const given = { file: handle, first: 0, last: 49_999_999, clock, stopping: t.signal };
      const reply = { hijack: () => undefined, getHeaders: () => ({}), raw: response };
      resolve({ response, isEnded: sendBytes({ request, reply } as never, 200, given) });
    });
  });
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1").pause();
  t.after(() => client.destroy());
  client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
  const { response, isEnded } = await served;
  await until("nothing is taken any more", () => response.writableNeedDrain).then(() =>
    clock.advance(20_000),
  );
  assert.equal(response.destroyed, false);
  await clock.advance(40_000);
  await isEnded;
  assert.equal(response.destroyed, true);
});

test("files are removed, folders only with a slash at the end", async (t) => {
  const { remove, list, folder, api } = await stage(t);
  mkdirSync(join(folder, "a/b/c"), { recursive: true });
  writeFileSync(join(folder, "a/b/file"), "x");
  assert.equal((await remove("a/b")).status, 409);
  assert.equal((await remove("a/b/file/")).status, 422);
  assert.equal((await remove("a/b/other")).status, 404);
  assert.equal((await remove("none/other")).status, 404);
  assert.equal((await remove("/a/b/file")).status, 200);
  assert.equal((await remove("a/")).status, 200);
  assert.deepEqual(await list(), []);
  for (const path of ["", "/", ".", "./", "//"])
    assert.equal((await remove(path)).status, 400, path);
  assert.equal(existsSync(folder), true);
  const entries = api.db
    .selectFrom("audit_log")
    .select("changes")
    .where("action", "=", "volume.remove");
  const done = await entries.where("outcome", "=", "success").orderBy("id").execute();
  assert.deepEqual(
    done.map(({ changes }) => changes),
    [{ filePath: { new: "a/b/file" } }, { filePath: { new: "a/" } }],
  );
});

test("a long list comes in pages", async (t) => {
  const { list, folder } = await stage(t);
  assert.deepEqual(await list(), [], "of a volume that nobody has used");
  mkdirSync(folder);
  const names = Array.from({ length: 25 }, (_, index) => `f${String(index).padStart(2, "0")}`);
  for (const name of names.toReversed()) writeFileSync(join(folder, name), "x");
  const found: string[] = [];
  for (
    let page = await list("&pageSize=10");
    page.length > 0;
    page = await list(`&pageSize=10&after=${found.at(-1)}`)
  )
    found.push(...page.map(({ name }) => name));
  assert.deepEqual(found, names);
});

test("a volume has a size: uploads beyond it are refused, and it is not made smaller than what it holds", async (t) => {
  const { api, volume, folder, upload, remove } = await stage(t, { settings: volumesOf(3e9) });
  const state = async () =>
    volumeList.parse((await api.call("GET", `/v2/projects/${api.projectId}/volumes`)).body)[0];
  assert.deepEqual(await state(), {
    id: "default",
    name: "default",
    mountPath: "/persistent-storage",
    sizeGb: 3,
    usedBytes: 0,
  });
  const resize = (newSizeGb: unknown) =>
    api.call("PATCH", `${volume}/resize`, { body: { newSizeGb } });
  assert.equal((await resize(4)).status, 400, "more than the platform allows");
  assert.equal((await resize(0)).status, 400);
  assert.equal((await resize(1)).body.sizeGb, 1);
  mkdirSync(folder, { recursive: true });
  const begin = (part_count: number) =>
    api.call("POST", `${volume}/cp/initialize`, { body: { file_path: "f", part_count } });
  const full = await begin(250);
  assert.deepEqual(
    [full.status, /holds . .B of 1 GB, and this takes 1.3 GB/.test(full.body.message)],
    [413, true],
  );
  assert.equal((await upload("small", Buffer.from("x"))).status, 200);
  assert.equal(
    (
      await api.call("PATCH", volume.replace("default", "other") + "/resize", {
        body: { newSizeGb: 2 },
      })
    ).status,
    404,
  );
  assert.equal((await remove("small")).status, 200);
  assert.equal((await state())?.sizeGb, 1);
});

test("uploads that began while there was space take no more of it together, whether their parts arrive or are cut off", async (t) => {
  const { api, volume, folder, begin } = await stage(t, { settings: volumesOf(1e9) });
  mkdirSync(folder, { recursive: true });
  assert.equal(
    (await api.call("PATCH", `${volume}/resize`, { body: { newSizeGb: 1 } })).status,
    200,
  );
  const one = await begin("one", 150);
  const other = await begin("other", 150);
  const address = (begun: Begun, number: number) => begun.parts[number - 1]?.url ?? "";
  // Together with those below, 190 parts fit.
  const rows = (begun: Begun, first: number, count: number) =>
    Array.from({ length: count }, (_, index) => ({
      upload_id: begun.upload_id,
      number: first + index,
      size_bytes: partBytes,
      digest: "",
    }));
  await api.db
    .insertInto("volume_upload_parts")
    .values([...rows(one, 2, 149), ...rows(other, 1, 39)])
    .execute();
  const partsOf = async ({ upload_id }: Begun) =>
    await api.db
      .selectFrom("volume_upload_parts")
      .selectAll()
      .where("upload_id", "=", upload_id)
      .execute();
  const { port, pathname } = new URL(address(one, 1));
  const socket = connect(Number(port), "127.0.0.1");
  socket.write(
    `PUT ${pathname} HTTP/1.1\r\nhost: a\r\ncontent-type: a/b\r\ncontent-length: ${partBytes}\r\n\r\nx`,
  );
  await until("the part begins", async () => (await partsOf(one)).length === 150);
  socket.destroy();
  const content = Buffer.alloc(partBytes);
  assert.equal((await put(address(other, 40), content)).status, 200);
  const refused = await put(address(other, 41), content);
  assert.deepEqual([refused.status, /holds . .B of 1 GB/.test(refused.body.message)], [413, true]);
  assert.equal((await put(address(other, 40), content)).status, 200, "again, in its own place");
  assert.equal((await partsOf(other)).length, 40, "nothing is kept for a part that was refused");
});

test("addresses end with their time, and what has arrived by then is removed", async (t) => {
  const { api, begin, complete, upload, addressOf } = await stage(t);
  await upload("f", Buffer.from("x"));
  const download = await addressOf("f");
  const old = await begin("old", 1);
  const current = await begin("current", 1);
  const urlOf = ({ parts }: Begun): string => parts[0]?.url ?? "";
  const part = await put(urlOf(old), Buffer.from("x"));
  const kept = await put(urlOf(current), Buffer.from("y"));
  const before = new Date(Date.now() - 25 * 3_600_000);
  await api.db
    .updateTable("volume_uploads")
    .set({ created_at: before })
    .where("id", "=", old.upload_id)
    .execute();
  await api.db.updateTable("volume_downloads").set({ created_at: before }).execute();
  assert.equal((await get(download)).status, 404);
  assert.equal((await put(urlOf(old), Buffer.from("x"))).status, 404);
  assert.equal((await complete(old.upload_id, "old", [part.etag])).status, 404);
  const files = new StorageFiles({
    storageDir: api.storageDir,
    userOf: () => null,
    isUserOwned: false,
  });
  const { signal } = new AbortController();
  await removeOld(oldVolumeRows(api.db), signal);
  await files.collect((ids) => readKept(api.db, ids), signal);
  assert.deepEqual(readdirSync(join(api.storageDir, ".incoming")), [current.upload_id]);
  assert.equal((await complete(current.upload_id, "current", [kept.etag])).status, 200);
  const rows = await api.db
    .selectFrom("volume_uploads")
    .select("file_path")
    .orderBy("file_path")
    .execute();
  assert.deepEqual(rows, [{ file_path: "current" }, { file_path: "f" }]);
  assert.deepEqual(await api.db.selectFrom("volume_downloads").selectAll().execute(), []);
});

test("nothing of a deleted project can be sent or read any more", async (t) => {
  const { api, begin, upload, addressOf } = await stage(t);
  await upload("f", Buffer.from("x"));
  const download = await addressOf("f");
  const begun = await begin("g", 1);
  assert.equal((await api.call("DELETE", `/v2/projects/${api.projectId}`)).status, 200);
  assert.equal((await get(download)).status, 404);
  assert.equal((await put(begun.parts[0]?.url ?? "", Buffer.from("x"))).status, 404);
  for (const table of ["volume_uploads", "volume_upload_parts", "volume_downloads"] as const)
    assert.deepEqual(await api.db.selectFrom(table).selectAll().execute(), [], table);
  assert.deepEqual(
    readdirSync(join(api.storageDir, api.projectId)),
    ["f"],
    "the driver removes it with the apps",
  );
});
