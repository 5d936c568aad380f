// Volumes on a whole platform: apps and the API see the same files, and what was acknowledged
// survives a kill.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { projectCost, usageAnswer } from "@slipway/contract/usage-routes.ts";
import { partBytes } from "@slipway/contract/volume-routes.ts";
import { builtInPrices, storageRateAt } from "#billing/usage/prices.ts";
import { testDatabase } from "#test/support/database.ts";
import { deploy } from "#test/support/examples.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { startPlatform, type PlatformProcess } from "#test/support/platform-process.ts";
import { until } from "#test/support/until.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { assertStorageExact } from "./usage-exact.ts";

const main = `
import os

def read(path: str):
    with open("/persistent-storage/" + path) as file:
        return file.read()

def add(path: str, text: str):
    os.makedirs(os.path.dirname("/persistent-storage/" + path), exist_ok=True)
    with open("/persistent-storage/" + path, "a") as file:
        file.write(text)
    return os.listdir("/persistent-storage")

def plant():
    os.symlink("/etc/passwd", "/persistent-storage/passwd")
    os.symlink("/", "/persistent-storage/top")
    os.mkfifo("/persistent-storage/pipe")
`;

async function stage(t: TestContext, settings: Record<string, string> = {}) {
  const platform = await startPlatform(t, settings);
  const volume = `/v2/projects/${platform.bootstrap.projectId}/volumes/default`;
  const begin = async (path: string, count: number) => {
    const body = { file_path: path, part_count: count, region: "" };
    return (await platform.api("POST", `${volume}/cp/initialize?region=`, body)).body;
  };
  const complete = (upload_id: string, path: string, etags: readonly (string | null)[]) =>
    platform.api("POST", `${volume}/cp/complete?region=`, {
      upload_id,
      file_path: path,
      parts: etags.map((etag, index) => ({ part_number: index + 1, etag })),
    });
  const download = async (path: string): Promise<Response> => {
    const { body } = await platform.api("GET", `${volume}/download?file_path=${path}`);
    return await fetch(here(platform, body.url));
  };
  return { platform, volume, begin, complete, download };
}

/** The port is another one after a restart. */
function here({ bootstrap }: PlatformProcess, url: string): string {
  return `${bootstrap.baseUrl}${new URL(url).pathname}`;
}

async function put(url: string, body: Buffer): Promise<string | null> {
  const response = await fetch(url, { method: "PUT", body: new Uint8Array(body) });
  assert.equal(response.status, 200, await response.text());
  return response.headers.get("etag");
}

test("an app reads and changes what was uploaded, and what it writes is downloaded", async (t) => {
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", { "main.py": main });
  const { platform, volume, begin, complete, download } = await stage(t, {
    SLIPWAY_GIT_URL: server.urlTemplate,
  });
  const upload = async (path: string, text: string): Promise<void> => {
    const { upload_id: id, parts } = await begin(path, 1);
    assert.equal(
      (await complete(id, path, [await put(parts[0].url, Buffer.from(text))])).status,
      200,
    );
  };
  // Before any app of the project has run.
  await upload("/data/words.txt", "uploaded");
  const app = await deploy(platform, { gitRepo: "acme/app", name: "app" });
  assert.equal(app.status, "success", app.log);
  const call = async (name: string, body: object): Promise<unknown> => {
    const response = await platform.call("app", name, body);
    const answer = await response.text();
    assert.equal(response.status, 200, answer);
    return (JSON.parse(answer) as { result: unknown }).result;
  };
  assert.equal(await call("read", { path: "data/words.txt" }), "uploaded");
  assert.deepEqual(await call("add", { path: "data/words.txt", text: " and more" }), ["data"]);
  assert.equal(await (await download("data/words.txt")).text(), "uploaded and more");
  await call("add", { path: "data/deep/own.txt", text: "by the app" });
  await upload("data/deep/other.txt", "beside it");
  assert.equal(await (await download("data/deep/own.txt")).text(), "by the app");
  assert.equal(await call("read", { path: "data/deep/other.txt" }), "beside it");
  await call("plant", {});
  for (const path of ["passwd", "top/etc/passwd", "pipe"]) {
    assert.equal(
      (await platform.api("GET", `${volume}/download?file_path=${path}`)).status,
      422,
      path,
    );
  }
  assert.equal((await platform.api("DELETE", `${volume}/rm?file_path=data/`)).status, 200);
  assert.deepEqual(
    await call("add", { path: "new/x", text: "" }).then((names) => (names as string[]).toSorted()),
    ["new", "passwd", "pipe", "top"],
  );
  const removed = join(platform.dataDir, "storage", ".removed");
  await until("its space is freed", async () => (await readdir(removed)).length === 0);
});

test("what a volume holds is billed for the time that it is there, across kills of the platform", async (t) => {
  const folder = temporaryFolder(t);
  await writeFile(
    join(folder, "prices.toml"),
    "[[prices]]\nstorage_gb_month = 1000\nstorage_free_gb = 0\n",
  );
  const { db, url } = await testDatabase(t);
  const { platform, volume, begin, complete } = await stage(t, {
    SLIPWAY_DATABASE_URL: url.reveal(),
    SLIPWAY_METERING_SECONDS: "1",
    SLIPWAY_PRICES_FILE: join(folder, "prices.toml"),
  });
  const { projectId } = platform.bootstrap;
  const upload = async (path: string): Promise<void> => {
    const { upload_id: id, parts } = await begin(path, 1);
    assert.equal(
      (await complete(id, path, [await put(parts[0].url, randomBytes(4_000_000))])).status,
      200,
    );
  };
  const sizes = async () =>
    await db
      .selectFrom("volume_uses")
      .select(["size_mb", "ended_at", "is_metered"])
      .orderBy("began_at")
      .execute();
  const isCounted = (sizeMb: number) => async (): Promise<boolean> =>
    (await sizes()).some((row) => row.size_mb === sizeMb && row.ended_at === null);
  await upload("one");
  await until("the first file is counted", isCounted(4), { deadlineMs: 60_000 });
  await platform.end("SIGKILL");
  await platform.restart();
  await upload("two");
  await until("the second file is counted", isCounted(8), { deadlineMs: 60_000 });
  for (const path of ["one", "two"]) {
    assert.equal((await platform.api("DELETE", `${volume}/rm?file_path=${path}`)).status, 200);
  }
  const isOver = async (): Promise<boolean> => (await sizes()).every((row) => row.is_metered);
  await until("it is empty, and all of it is metered", isOver, { deadlineMs: 60_000 });
  assert.deepEqual(
    (await sizes()).map((row) => row.size_mb),
    [4, 8],
  );
  const prices = [
    { ...builtInPrices[0], storageGbMonth: 1_000_000_000_000n, storageFree: 0n },
  ] as const;
  const stored = await assertStorageExact(
    db,
    (size, fromMs, toMs) => BigInt(toMs - fromMs) * storageRateAt(prices, size, fromMs),
  );
  assert.ok(stored > 0n);
  const { body } = await platform.api("GET", `/v2/projects/${projectId}/cost`);
  const { summary } = projectCost.parse(body);
  assert.deepEqual([summary.storage_cost_micros, summary.run_cost_micros], [Number(stored), 0]);
  assert.equal(summary.combined_cost_before_discounts_micros, Number(stored));
  assert.ok(summary.total_storage_gb_seconds > 0);
  const { body: used } = await platform.api("GET", `/v2/projects/${projectId}/usage`);
  const [item] = usageAnswer.parse(used).items;
  assert.deepEqual([item?.app_id, item?.cost_micros], ["", Number(stored)]);
});

test("an upload goes on after a kill, the old file stays until it is complete, and then the new one", async (t) => {
  const { platform, begin, complete, download } = await stage(t);
  const content = randomBytes(2 * partBytes + 100);
  const kill = async (): Promise<void> => {
    await platform.end("SIGKILL");
    await platform.restart();
  };
  const old = await begin("f", 1);
  assert.equal(
    (await complete(old.upload_id, "f", [await put(old.parts[0].url, Buffer.from("old"))])).status,
    200,
  );
  const { upload_id: id, parts } = await begin("f", 3);
  const send = (number: number): Promise<string | null> =>
    put(
      here(platform, parts[number - 1].url),
      content.subarray((number - 1) * partBytes, number * partBytes),
    );
  const third = await send(3);
  const first = await send(1);
  await kill();
  assert.equal(await (await download("f")).text(), "old");
  const second = await send(2);
  assert.equal((await complete(id, "f", [first, second, third])).status, 200);
  await kill();
  assert.ok(Buffer.from(await (await download("f")).arrayBuffer()).equals(content));
  assert.equal((await complete(id, "f", [first, second, third])).status, 200, "answered again");
  const incoming = join(platform.dataDir, "storage", ".incoming");
  assert.deepEqual(await readdir(incoming), []);
});
