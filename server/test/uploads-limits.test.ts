// The limits of uploads: of a project, of the disk, and how long their files are kept. No queue
// builds them here.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readdirSync, readFileSync, statSync, truncateSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { PassThrough, Readable } from "node:stream";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import { startedUpload } from "@slipway/contract/upload-routes.ts";
import { ownerKeys } from "#accounts/owner-keys.ts";
import { rebuild } from "#deploy/receive.ts";
import { giveUpUploads } from "#deploy/upload-store.ts";
import { Uploads } from "#deploy/uploads.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import type { BuildId } from "#lib/ids.ts";
import { startManagementApi, type Json } from "#test/support/management-api.ts";
import { until } from "#test/support/until.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";

async function stage(t: TestContext, clock: Clock = systemClock) {
  const api = await startManagementApi(t, { clock });
  const start = async (body: object = {}) => {
    const answer = await api.call("POST", `/v2/projects/${api.projectId}/apps`, {
      body: { name: "hello", ...body },
    });
    assert.equal(answer.status, 201, JSON.stringify(answer.body));
    return startedUpload.parse(answer.body);
  };
  return { api, start };
}

async function put(url: string): Promise<void> {
  assert.equal((await fetch(url, { method: "PUT", body: "a zip" })).status, 200);
}

test("an upload ends when the disk gets full, and goes on when there is room again", async (t) => {
  const { api, start } = await stage(t);
  const freeSpace = { bytes: 1e9, reserveBytes: 1e6 };
  const disk = { freeSpace, buildRefusal: () => null };
  const uploads = new Uploads({
    db: api.db,
    clock: systemClock,
    uploadsDir: api.uploadsDir,
    ownerKeyOf: ownerKeys({ db: api.db, clock: systemClock }),
    bytesMax: 1e9,
    disk,
  });
  const key = (await start()).uploadUrl.split("/").at(-1) ?? "";
  const body = new PassThrough();
  const receiving = uploads.receive(key, { range: null, length: null, body });
  const isFull = assert.rejects(receiving, {
    code: "unavailable",
    message: /has room for \d+ [kM]B/,
  });
  body.write("one");
  await until("it arrives", async () => (await uploads.progress(key)).receivedBytes === 3);
  freeSpace.bytes = 1e5;
  body.end("two");
  await isFull;
  freeSpace.bytes = 1e9;
  const rest = { range: "bytes 3-5/6", length: 3, body: Readable.from([Buffer.from("two")]) };
  assert.deepEqual((await uploads.receive(key, rest)).receivedBytes, 6);
});

test("slow uploads of a project leave half of the places to others", async (t) => {
  const { api, start } = await stage(t);
  const keys = await Promise.all(
    Array.from({ length: 33 }, async (_, index) =>
      (await start({ name: `app-${index}` })).uploadUrl.split("/").at(-1),
    ),
  );
  const freeSpace = { bytes: 1e9, reserveBytes: 0 };
  const disk = { freeSpace, buildRefusal: () => null };
  const uploads = new Uploads({
    db: api.db,
    clock: systemClock,
    uploadsDir: api.uploadsDir,
    ownerKeyOf: ownerKeys({ db: api.db, clock: systemClock }),
    bytesMax: 1e6,
    disk,
  });
  const body = () => new PassThrough();
  const bodies = keys.map(body);
  const all = keys.map((key, index) =>
    uploads
      .receive(key ?? "", { range: null, length: null, body: bodies[index] ?? body() })
      .catch(() => undefined),
  );
  await until("half of the places are taken", () => readdirSync(api.uploadsDir).length === 32);
  const project = await api.addProject("other");
  const token = await api.issue({ kind: "service_account", name: "other", projectId: project });
  const path = `/v2/projects/${project}/apps`;
  const answer = (await api.call("POST", path, { body: { name: "hello" }, token })).body as Json;
  const whole = { range: null, length: 3, body: Readable.from([Buffer.from("zip")]) };
  assert.equal((await uploads.receive(answer.uploadUrl.split("/").at(-1), whole)).isComplete, true);
  assert.equal(readdirSync(api.uploadsDir).length, 33, "one of the first project's waits");
  for (const one of bodies) one.destroy();
  await Promise.all(all);
});

test("the uploads of a project that wait for more, or for their builds, have a limit together", async (t) => {
  const { api, start } = await stage(t);
  const disk = { freeSpace: { bytes: 1e9, reserveBytes: 0 }, buildRefusal: () => null };
  const options = {
    ownerKeyOf: ownerKeys({ db: api.db, clock: systemClock }),
    db: api.db,
    clock: systemClock,
    uploadsDir: api.uploadsDir,
    bytesMax: 1000,
    disk,
  };
  const uploads = new Uploads(options);
  const builds: string[] = [];
  const send = async (name: string, bytes: number, size: number) => {
    const { uploadUrl, buildId } = await start({ name });
    builds.push(buildId);
    const range = bytes === size ? null : `bytes 0-${bytes - 1}/${size}`;
    const body = Readable.from([Buffer.alloc(bytes)]);
    return await uploads.receive(uploadUrl.split("/").at(-1) ?? "", { range, length: bytes, body });
  };
  for (const name of ["app-a", "app-b", "app-c"]) await send(name, 1000, 1000);
  await send("app-d", 500, 1000);
  await assert.rejects(send("app-e", 1, 501), {
    code: "rate_limited",
    message: /wait until some have ended, or cancel/,
  });
  await send("app-f", 500, 500);
  const path = `/v2/projects/${api.projectId}/apps/app-a/builds/${builds[0]}`;
  assert.equal((await api.call("DELETE", path)).status, 200);
  assert.equal((await send("app-e", 1000, 1000)).isComplete, true);
});

test("uploads that begin at once have no more together, and the first ones go on", async (t) => {
  const { api, start } = await stage(t);
  const disk = { freeSpace: { bytes: 1e9, reserveBytes: 0 }, buildRefusal: () => null };
  const options = {
    ownerKeyOf: ownerKeys({ db: api.db, clock: systemClock }),
    db: api.db,
    clock: systemClock,
    uploadsDir: api.uploadsDir,
    bytesMax: 1000,
    disk,
  };
  const uploads = new Uploads(options);
  const names = Array.from({ length: 8 }, (_, index) => `app-${index}`);
  const keys = await Promise.all(
    names.map(async (name) => (await start({ name })).uploadUrl.split("/").at(-1) ?? ""),
  );
  const bodies = keys.map(() => new PassThrough());
  let refused = 0;
  const all = keys.map(async (key, index) => {
    const body = bodies[index] ?? assert.fail();
    body.write("a");
    await uploads.receive(key, { range: null, length: 1000, body }).catch(({ code }) => {
      if (code === "rate_limited") refused++;
    });
  });
  const sizes = () =>
    readdirSync(api.uploadsDir).map((name) => statSync(join(api.uploadsDir, name)).size);
  const stored = () => sizes().filter((size) => size === 1).length;
  await until("each is refused or goes on", () => refused + stored() === 8);
  assert.equal(refused, 4);
  for (const body of bodies) body.destroy();
  await Promise.all(all);
});

test("a request that comes while an earlier one completes the upload leaves its files alone", async (t) => {
  const { api, start } = await stage(t);
  let begunCount = 0;
  const uploads = new Uploads({
    db: api.db,
    clock: systemClock,
    uploadsDir: api.uploadsDir,
    ownerKeyOf: async () => String(begunCount++),
    bytesMax: 1e6,
    disk: { freeSpace: { bytes: 1e9, reserveBytes: 0 }, buildRefusal: () => null },
  });
  const { uploadUrl, buildId } = await start();
  const key = uploadUrl.split("/").at(-1) ?? "";
  const receive = (text: string) =>
    uploads.receive(key, { range: null, length: text.length, body: Readable.from([text]) });
  const [first, second] = await api.db.transaction().execute(async (tx) => {
    await tx
      .selectFrom("builds")
      .select("id")
      .where("id", "=", buildId as BuildId)
      .forUpdate()
      .execute();
    const completing = receive("first");
    await until("it waits for the build's row", async () => {
      const { rows } = await sql`select from pg_locks
          where not granted and transactionid = pg_current_xact_id()::xid`.execute(tx);
      return rows.length > 0;
    });
    const repeating = receive("later");
    await until("the next one has begun", () => begunCount === 2);
    return [completing, repeating];
  });
  assert.equal((await first).isComplete, true);
  assert.equal((await second).isComplete, true);
  const [name = ""] = readdirSync(api.uploadsDir);
  assert.equal(readFileSync(join(api.uploadsDir, name), "utf8"), "first");
});

test("files are kept for a build that is repeated while they would be removed", async (t) => {
  const { api, start } = await stage(t);
  const { buildId, keyName, uploadUrl } = await start();
  await put(uploadUrl);
  const ended = { status: "build_failure", ended_at: new Date() } as const;
  await api.db.updateTable("builds").set(ended).execute();
  await put((await start()).uploadUrl);
  const { app_id: appId, project_id: projectId } = await api.db
    .selectFrom("builds")
    .select(["app_id", "project_id"])
    .where("id", "=", buildId as BuildId)
    .executeTakeFirstOrThrow();
  const by = { type: "person", id: "some-id", name: "Ada" } as const;
  let kept: Promise<readonly string[]> | undefined;
  await api.db.transaction().execute(async (tx) => {
    await rebuild(tx, { projectId, appId, buildId: buildId as BuildId, by });
    kept = giveUpUploads(api.db);
    await until("it waits for the build", async () => {
      const { rows } = await sql`select from pg_locks where not granted
        and pid in (select pid from pg_stat_activity where datname = current_database())`.execute(
        api.db,
      );
      return rows.length > 0;
    });
  });
  assert.ok((await kept)?.includes(keyName.replace(".zip", "")));
});

test("downloads that wait behind clients who read nothing are refused after a while", async (t) => {
  const clock = new VirtualClock();
  const { api, start } = await stage(t, clock);
  const { buildId, keyName, uploadUrl } = await start();
  await put(uploadUrl);
  // More than sockets take while nobody reads them.
  truncateSync(join(api.uploadsDir, keyName.replace(".zip", "")), 50_000_000);
  const path = `/v2/projects/${api.projectId}/apps/hello/builds/${buildId}/download`;
  const { port, hostname } = new URL(api.baseUrl);
  const heads: string[] = [];
  for (let count = 0; count < 4 + 20 + 1; count++) {
    const client = connect(Number(port), hostname);
    t.after(() => client.destroy());
    client.write(`GET ${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${api.token}\r\n\r\n`);
    void once(client, "data").then(([data]) => {
      client.pause();
      heads.push(String(data).slice(0, 12));
    });
  }
  const counted = () =>
    [200, 429].map((status) => heads.filter((head) => head.endsWith(String(status))).length);
  await until("one finds no place to wait", () => counted().join() === "4,1");
  await clock.advance(20_000);
  await until("the others have waited long enough", () => counted().join() === "4,21");
});
