// Paths and files that mean harm: whatever a caller names and an app plants, nothing outside the
// volume is read, written, listed or removed, and nothing hangs.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import type { ApiCall } from "#api/call.ts";
import type { HandlerParts } from "#api/parts.ts";
import { volumeHandlers } from "#api/volumes.ts";
import { StorageFiles, type StoredEntry } from "#drivers/storage-files.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startManagementApi } from "#test/support/management-api.ts";
import { until } from "#test/support/until.ts";

const isRoot = process.getuid?.() === 0;
const projectId = "p-00000001" as ProjectId;

/** What leads out, or to nothing. Refused before the file system sees it. */
const refusedPaths = [
  "..",
  "../other",
  "/../other",
  "a/../../other",
  "a/..",
  "./..",
  "//..//other",
  "a/b/../../..",
  "x".repeat(256),
  `${"x/".repeat(2100)}x`,
  `${"d/".repeat(101)}x`,
  "\u{1F600}".repeat(64),
];

/** Ordinary names, which no part of the way may decode or translate. */
const ordinaryPaths = [
  "%2e%2e",
  "%2e%2e%2fother",
  "%252e%252e/x",
  "..%2f..%2fother",
  "%00",
  "..\\..\\other",
  "C:\\other",
  "...",
  "..x",
  "․․",
  "‥",
  "．．",
  "..\u200b",
  "\u202e..",
  "a\nb",
  "~",
  "$(touch x)",
  "-rf",
  ".incoming",
  "\u{1F600}",
];

test("paths that lead out of the volume are refused, and names are taken as they are", async (t) => {
  const api = await startManagementApi(t);
  const volume = `/v2/projects/${api.projectId}/volumes/default`;
  const folder = join(api.storageDir, api.projectId);
  mkdirSync(folder);
  writeFileSync(join(api.storageDir, "other"), "of somebody else");
  const sent = (path: string) => encodeURIComponent(path);
  for (const path of [...refusedPaths, "a\0b", "\0"]) {
    const begin = { body: { file_path: path, part_count: 0 } };
    const answers = [
      await api.call("POST", `${volume}/cp/initialize`, begin),
      await api.call("GET", `${volume}/download?file_path=${sent(path)}`),
      await api.call("GET", `${volume}/ls?dir=${sent(path)}`),
      await api.call("DELETE", `${volume}/rm?file_path=${sent(path)}`),
      await api.call("DELETE", `${volume}/rm?file_path=${sent(`${path}/`)}`),
    ];
    for (const { status, body } of answers) {
      assert.deepEqual(
        [status, /^(?:file_path|dir) is/.test(body.message)],
        [400, true],
        `${path} ${body.message}`,
      );
    }
  }
  for (const raw of ["%ff%fe", "%c0%ae%c0%ae", "%ed%a0%80", "%"]) {
    const { status } = await api.call("GET", `${volume}/download?file_path=${raw}`);
    assert.ok(status === 400 || status === 404, `${raw} ${status}`);
  }
  for (const path of ordinaryPaths) {
    const begun = await api.call("POST", `${volume}/cp/initialize`, {
      body: { file_path: path, part_count: 0 },
    });
    const complete = { upload_id: begun.body.upload_id, file_path: path, parts: [] };
    assert.equal(
      (await api.call("POST", `${volume}/cp/complete`, { body: complete })).status,
      200,
      path,
    );
    assert.equal(statSync(join(folder, path)).size, 0, path);
    const { body } = await api.call("GET", `${volume}/download?file_path=${sent(path)}`);
    assert.equal((await fetch(body.url)).status, 200, path);
    assert.equal(
      (await api.call("DELETE", `${volume}/rm?file_path=${sent(path)}`)).status,
      200,
      path,
    );
  }
  assert.deepEqual(readdirSync(api.storageDir).toSorted(), [".incoming", "other", api.projectId]);
  assert.equal(readFileSync(join(api.storageDir, "other"), "utf8"), "of somebody else");
});

function stage(t: TestContext, userOf: () => number | null = () => null) {
  const folder = temporaryFolder(t, "volumes");
  const outside = join(folder, "outside");
  const storageDir = join(folder, "storage");
  const root = join(storageDir, projectId);
  mkdirSync(join(outside, "sub"), { recursive: true });
  mkdirSync(root, { recursive: true });
  writeFileSync(join(outside, "secret"), "secret");
  const files = new StorageFiles({ storageDir, userOf, isUserOwned: false });
  const path = (text: string) => ({ projectId, names: text.split("/") });
  const read = async (text: string): Promise<string> => {
    const { handle } = await files.open(path(text));
    try {
      return await handle.readFile("utf8");
    } finally {
      await handle.close();
    }
  };
  const write = async (text: string, content: string): Promise<void> => {
    const file = await files.openIncoming("upload");
    await file.writeFile(content);
    await file.close();
    await files.finishIncoming("upload", projectId, content.length);
    await files.moveIncoming(path(text), "upload");
  };
  const list = (text: string) => files.list(path(text), { after: "", max: 100 });
  return { files, folder, outside, root, storageDir, path, read, write, list };
}

const refused = (error: unknown): boolean =>
  error instanceof Fault && ["not_usable", "conflict", "not_found"].includes(error.code);

test("links, pipes and devices are listed and removed, but never followed or opened", async (t) => {
  const { files, outside, root, path, read, write, list } = stage(t);
  symlinkSync(outside, join(root, "folder"));
  symlinkSync(join(outside, "secret"), join(root, "file"));
  symlinkSync("/", join(root, "top"));
  symlinkSync("loop", join(root, "loop"));
  symlinkSync("/proc/self/root", join(root, "proc"));
  execFileSync("mkfifo", [join(root, "pipe")]);
  const devices = isRoot ? ["device"] : [];
  for (const name of devices) execFileSync("mknod", [join(root, name), "c", "1", "5"]);
  const planted = ["folder", "file", "top", "loop", "proc", "pipe", ...devices];
  const entries = await files.list({ projectId, names: [] }, { after: "", max: 100 });
  assert.deepEqual(
    entries.map(({ name, isFolder, sizeBytes }) => [name, isFolder, sizeBytes]),
    planted.toSorted().map((name) => [name, false, 0]),
  );
  for (const name of planted) {
    await assert.rejects(read(name), refused, name);
    await assert.rejects(list(name), refused, name);
    await assert.rejects(read(`${name}/secret`), refused, name);
    await assert.rejects(write(`${name}/new`, "x"), refused, name);
    await assert.rejects(write(`${name}/sub/new`, "x"), refused, name);
    await assert.rejects(files.remove(path(`${name}/secret`)), refused, name);
    await assert.rejects(files.removeFolder(path(`${name}/sub`)), refused, name);
    await assert.rejects(files.removeFolder(path(name)), refused, name);
  }
  await write("file", "mine");
  assert.equal(await read("file"), "mine", "the link is replaced");
  await write("pipe", "mine");
  for (const name of planted) await files.remove(path(name));
  assert.deepEqual(readdirSync(root), []);
  assert.deepEqual(readdirSync(outside), ["secret", "sub"]);
  assert.equal(readFileSync(join(outside, "secret"), "utf8"), "secret");
});

test("a folder is removed with the links, closed folders and deep paths in it, and nothing that they lead to", async (t) => {
  const { files, outside, root, storageDir, path } = stage(t);
  mkdirSync(join(root, "gone/closed"), { recursive: true, mode: 0o000 });
  symlinkSync(outside, join(root, "gone/link"));
  writeFileSync(
    Buffer.concat([Buffer.from(join(root, "gone/")), Buffer.from([0xff, 0xfe])]),
    "not UTF-8",
  );
  const deep = `cd "${join(root, "gone")}"; for i in $(seq 1 60); do mkdir ${"d".repeat(200)}; cd ${"d".repeat(200)}; done`;
  execFileSync("bash", ["-c", deep]);
  await files.removeFolder(path("gone"));
  assert.deepEqual(readdirSync(root), []);
  await files.collect(() => Promise.resolve([]), new AbortController().signal);
  assert.deepEqual(readdirSync(join(storageDir, ".removed")), []);
  assert.deepEqual(readdirSync(outside), ["secret", "sub"]);
});

/** Swaps a folder and a link to `outside` all the time, each time in one step: RENAME_EXCHANGE. */
const swapper = `
import ctypes
rename = ctypes.CDLL(None).renameat2
print("on", flush=True)
while rename(-100, b"d", -100, b"link", 2) == 0: pass
raise SystemExit("the folder and the link are not swapped any more")`;

test("a folder that an app swaps for a link all the time leads nowhere", async (t) => {
  const { files, outside, root, path, read, write, list } = stage(t);
  mkdirSync(join(root, "d/sub"), { recursive: true });
  symlinkSync(outside, join(root, "link"));
  const app = spawn("python3", ["-c", swapper], {
    cwd: root,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(app, "exit");
  t.after(async () => {
    app.kill("SIGKILL");
    await ended;
  });
  await once(app.stdout, "data");
  const done = { read: 0, written: 0, refused: 0 };
  const attempt = async (kind: "read" | "written", work: () => Promise<unknown>): Promise<void> => {
    try {
      await work();
      done[kind]++;
    } catch (error) {
      assert.ok(refused(error), String(error));
      done.refused++;
    }
  };
  for (let round = 0; round < 60; round++) {
    await attempt("written", () => write("d/new", "mine"));
    await attempt("read", async () => assert.equal(await read("d/new"), "mine"));
    await attempt("read", async () =>
      assert.ok((await list("d")).every(({ name }) => name !== "secret")),
    );
    await attempt("written", () => write("d/sub/new", "mine"));
    await assert.rejects(read("d/secret"), refused);
    await assert.rejects(files.remove(path("d/secret")), refused);
  }
  assert.equal(app.exitCode, null);
  assert.ok(done.read > 0 && done.written > 0 && done.refused > 0, JSON.stringify(done));
  assert.deepEqual(readdirSync(outside), ["secret", "sub"]);
  assert.deepEqual(readdirSync(join(outside, "sub")), []);
});

test(
  "files and the folders made for them belong to the apps, which can read and write them",
  { skip: !isRoot && "it needs root" },
  async (t) => {
    const user = 0x70000001;
    const { files, root, path, write, read } = stage(t, () => user);
    await write("a/b/file", "x");
    for (const name of ["", "a", "a/b", "a/b/file"])
      assert.equal(statSync(join(root, name)).uid, user, name);
    assert.equal(statSync(join(root, "a/b/file")).mode & 0o777, 0o644);
    execFileSync("chown", ["12345", join(root, "a/b/file"), join(root, "a")]);
    execFileSync("chmod", ["000", join(root, "a/b/file")]);
    assert.equal(await read("a/b/file"), "x", "of another user, closed");
    await write("a/b/file", "y");
    assert.equal(statSync(join(root, "a")).uid, 12345, "what belongs to an app stays as it is");
    await files.remove(path("a/b/file"));
  },
);

test("lists of a project wait for each other, so that large folders leave time to everything else", async () => {
  const waiting: (() => void)[] = [];
  const list = () =>
    new Promise<readonly StoredEntry[]>((resolve) => waiting.push(() => resolve([])));
  const { listFiles } = volumeHandlers({
    volumes: { list },
    ownerKeyOf: () => Promise.resolve("somebody"),
  } as unknown as HandlerParts);
  const call = {
    query: { pageSize: 1 },
    request: { headers: {}, params: { project_id: projectId, volume_id: "default" } },
  };
  const all = Array.from({ length: 23 }, () => listFiles(call as unknown as ApiCall));
  const message = /requests for lists of files at once: .* 20 wait/;
  const isRefused = assert.rejects(all.pop() ?? Promise.resolve(), {
    code: "rate_limited",
    message,
  });
  await until("some begin", () => waiting.length >= 2);
  assert.equal(waiting.length, 2);
  await isRefused;
  let ended = 0;
  for (const one of all) void one.then(() => ended++);
  await until("all that wait are answered", () => {
    for (const end of waiting.splice(0)) end();
    return ended === 22;
  });
});

const memoryFolder = "/dev/shm";

test("a file whose time is no date is listed", { skip: !existsSync(memoryFolder) }, async (t) => {
  const storageDir = mkdtempSync(join(memoryFolder, "slipway-test-"));
  t.after(() => rmSync(storageDir, { recursive: true }));
  mkdirSync(join(storageDir, projectId));
  const file = join(storageDir, projectId, "f");
  writeFileSync(file, "x");
  utimesSync(file, 1, 9e15);
  const files = new StorageFiles({ storageDir, userOf: () => null, isUserOwned: false });
  const [entry] = await files.list({ projectId, names: [] }, { after: "", max: 1 });
  assert.match(entry?.modifiedAt.toISOString() ?? "", /^\d{4}/);
});
