// Deployments by upload: from the request over the zip, whole or in parts, to a release; what is
// refused; and what is kept.
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect } from "node:net";
import { test, type TestContext } from "node:test";
import { startedUpload, uploadState } from "@slipway/contract/upload-routes.ts";
import { unpack } from "#deploy/sources/upload.ts";
import { processArtifact } from "#drivers/process/artifact.ts";
import type { BuildId } from "#lib/ids.ts";
import { buildInState, playedTrial, startQueue } from "#test/support/build-queue.ts";
import { startManagementApi, type ApiUnderTest, type Json } from "#test/support/management-api.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { rawZip, zipOf } from "#test/support/raw-zip.ts";
import { until } from "#test/support/until.ts";

const toml = '[cerebrium.deployment]\nname = "hello"\n\n[cerebrium.hardware]\ncpu = 1.5\n';
const mainPy = "def run(): return 1\n";

type Put = { readonly body: Buffer; readonly range?: string };

async function stage(t: TestContext, { withQueue = true } = {}) {
  const api = await startManagementApi(t);
  const folder = temporaryFolder(t, "uploaded");
  const { uploadsDir } = api;
  const given = {
    db: api.db,
    url: api.databaseUrl,
    folder,
    uploadsDir,
    urlTemplate: "file:///nowhere/{owner}/{repo}",
  };
  if (withQueue) await startQueue(t, { ...given, trial: playedTrial(() => ({ ok: true })) });
  const deploy = async (body: object = {}, token?: string) => {
    const path = `/v2/projects/${api.projectId}/apps`;
    const answer = await api.call("POST", path, {
      body: { name: "hello", ...body },
      ...(token && { token }),
    });
    return { ...answer, body: answer.body as Json };
  };
  const start = async (body: object = {}) => {
    const { status, body: answer } = await deploy(body);
    assert.equal(status, 201, JSON.stringify(answer));
    return startedUpload.parse(answer);
  };
  const ended = async (buildId: string) => (await buildInState(api.db, buildId as BuildId)).row;
  const deployed = async (files: Readonly<Record<string, string>>, body: object = {}) => {
    const { uploadUrl, buildId } = await start(body);
    assert.equal((await put(uploadUrl, { body: zipOf(files) })).status, 200);
    return await ended(buildId);
  };
  return { api, folder, uploadsDir, deploy, start, ended, deployed };
}

/** As clients send it: without a token. */
async function put(url: string, { body, range }: Put): Promise<{ status: number; body: Json }> {
  const headers = {
    "content-type": "application/zip",
    ...(range === undefined ? {} : { "content-range": range }),
  };
  const response = await fetch(url, { method: "PUT", headers, body: new Uint8Array(body) });
  return { status: response.status, body: (await response.json()) as Json };
}

async function progress(url: string): Promise<Json> {
  return uploadState.parse(await (await fetch(url)).json()) as Json;
}

test("files that are uploaded become a release; the next upload is a build of the same app", async (t) => {
  const { deployed, api, folder } = await stage(t);
  const payload = {
    include: ["./*"],
    exclude: [],
    shellCommands: null,
    preBuildCommands: null,
    runtime: "cortex",
    logLevel: "INFO",
    disableBuildLogs: false,
    cliVersion: "1.2.3",
    cerebrium_toml: toml,
    cpu: 1.5,
    compute: ["CPU"],
  };
  const first = await deployed({ "main.py": mainPy, "bin/tool.sh": "#!/bin/sh\n" }, payload);
  assert.equal(first.status, "success", first.reason ?? "");
  const { appDir } = processArtifact(first.artifact as never);
  assert.equal(readFileSync(join(appDir, "main.py"), "utf8"), mainPy);
  const app = await api.call("GET", `/v2/projects/${api.projectId}/apps/hello`);
  const { settings, gitRepo } = app.body as Json;
  assert.deepEqual([gitRepo, settings.cpu.origin, settings.cpu.value], [null, "config_toml", 1.5]);
  assert.equal(
    settings.runtime.origin,
    "default",
    "what a client always sends is not set by the API",
  );

  const again = await deployed({ "bin/tool.sh": "#!/bin/sh\n", "main.py": mainPy }, payload);
  assert.deepEqual(
    [again.status, again.number, again.artifact],
    ["success", 2, first.artifact],
    "the same files",
  );
  const other = await deployed({ "main.py": "def run(): return 2\n" }, payload);
  assert.notDeepEqual(other.artifact, first.artifact);
  await until(
    "unpacked files are removed",
    () => readdirSync(join(folder, "sources")).length === 0,
  );
});

test("what the API has set stays when a deployment leaves it out, and a rebuild takes the same files", async (t) => {
  const { deployed, api, ended } = await stage(t);
  const app = `/v2/projects/${api.projectId}/apps/hello`;
  const first = await deployed(
    { "main.py": mainPy, "cerebrium.toml": toml },
    { cerebrium_toml: toml },
  );
  assert.equal((await api.call("PATCH", app, { body: { maxReplicaCount: 7 } })).status, 200);
  await deployed({ "main.py": "def run(): return 2\n" }, { cerebrium_toml: toml, cpu: 1.5 });
  const { settings } = (await api.call("GET", app)).body as Json;
  assert.deepEqual([settings.maxReplicaCount.value, settings.maxReplicaCount.origin], [7, "api"]);
  const rebuilt = await api.call("POST", `${app}/builds/${first.id}/rebuild`);
  const build = await ended((rebuilt.body as Json).buildId);
  assert.equal(build.status, "success");
  assert.equal(
    readFileSync(join(processArtifact(build.artifact as never).appDir, "main.py"), "utf8"),
    mainPy,
  );
  const latest = await api.call("POST", `${app}/builds`, { body: {} });
  assert.equal((await ended((latest.body as Json).buildId)).status, "success");
  const ofBranch = await api.call("POST", `${app}/builds`, { body: { branch: "main" } });
  assert.deepEqual(
    [ofBranch.status, (ofBranch.body as Json).message],
    [400, "branch is given, but the app has no repository: its files are uploaded."],
  );
  assert.equal((await api.call("POST", `${app}/git-hook`)).status, 409);
});

test("a zip that is cut off goes on where it ended; a repeated request is answered as the first", async (t) => {
  const { start, ended } = await stage(t);
  const { uploadUrl, buildId } = await start();
  const zip = rawZip([
    { name: "main.py", content: mainPy },
    { name: "data", content: Buffer.alloc(200_000, "a"), method: 0 },
  ]);
  await sendHalf(uploadUrl, zip);
  const half = await until("some of it has arrived", async () => {
    const now = await progress(uploadUrl);
    return now.receivedBytes > 0 ? now : null;
  });
  assert.equal(half.isComplete, false);
  const wrong = await put(uploadUrl, {
    body: zip.subarray(5),
    range: `bytes 5-${zip.length - 1}/${zip.length}`,
  });
  assert.deepEqual([wrong.status, /must go on at \d+/.test(wrong.body.message)], [409, true]);
  const { receivedBytes: from } = await progress(uploadUrl);
  const middle = Math.floor((from + zip.length) / 2);
  const parts = [
    [from, middle],
    [middle, zip.length],
  ] as const;
  for (const [first, end] of parts) {
    const range = `bytes ${first}-${end - 1}/${zip.length}`;
    const { status, body } = await put(uploadUrl, { body: zip.subarray(first, end), range });
    assert.deepEqual([status, body.receivedBytes, body.isComplete], [200, end, end === zip.length]);
  }
  assert.equal((await ended(buildId)).status, "success");
  assert.equal((await put(uploadUrl, { body: zip })).status, 200);
});

/** Half of a request; the connection is lost then. */
async function sendHalf(uploadUrl: string, zip: Buffer): Promise<void> {
  const { port, pathname } = new URL(uploadUrl);
  const socket = connect(Number(port), "127.0.0.1");
  const head = `PUT ${pathname} HTTP/1.1\r\nhost: a\r\ncontent-type: application/zip\r\ncontent-length: ${zip.length}\r\n\r\n`;
  await new Promise<void>((resolve) =>
    socket.write(Buffer.concat([Buffer.from(head), zip.subarray(0, zip.length / 2)]), () =>
      resolve(),
    ),
  );
  await until("half of it has arrived", async () => (await progress(uploadUrl)).receivedBytes > 0);
  socket.resetAndDestroy();
}

test("zips that would leave the folder, hold links or lie about their sizes fail the build with the reason", async (t) => {
  const { start, ended, folder } = await stage(t);
  const link = { name: "link", content: "/etc/passwd", mode: 0o120777 };
  const cases: readonly (readonly [Buffer, RegExp])[] = [
    [
      rawZip([{ name: "../evil.py", content: "x" }]),
      /cannot be unpacked: invalid relative path: \.\.\/evil\.py/,
    ],
    [rawZip([{ name: "a/../../evil.py", content: "x" }]), /invalid relative path/],
    [rawZip([{ name: "/etc/evil", content: "x" }]), /absolute path: \/etc\/evil/],
    [rawZip([{ name: "a\\..\\..\\evil", content: "x" }]), /invalid relative path/],
    [rawZip([{ name: "..\\evil.py", content: "x" }]), /invalid relative path/],
    [rawZip([{ name: "\\\\server\\evil", content: "x" }]), /absolute path/],
    [rawZip([{ name: "C:\\evil", content: "x" }]), /absolute path/],
    [rawZip([{ name: "C:/evil", content: "x" }]), /absolute path/],
    [rawZip([{ name: "a\0b", content: "x" }]), /a name that cannot be stored/],
    [rawZip([link, { name: "link/evil", content: "x" }]), /"link" in the upload is a link/],
    [rawZip([{ name: "pipe", mode: 0o010644 }]), /neither a file nor a folder/],
    [zipOf({ "main.py": mainPy, "main.py/x": "x" }), /names contradict each other/],
    [
      rawZip([
        { name: "a", content: "1" },
        { name: "./a", content: "2" },
      ]),
      /holds "a" twice/,
    ],
    [rawZip([{ name: "a".repeat(300), content: "x" }]), /cannot be stored/],
    [rawZip([{ name: "a", content: "x".repeat(1000), claimedSize: 5 }]), /too many bytes/],
    [rawZip([{ name: "a", content: "x", flags: 0x801 }]), /is encrypted/],
    [rawZip([{ name: "a", content: "x", method: 99 }]), /unsupported compression method/],
    [
      rawZip([{ name: "a/" }, { name: "a", content: "x", method: 99 }]),
      /unsupported compression method/,
    ],
    [
      rawZip(
        Array.from({ length: 60 }, (_, index) => ({
          name: `bomb${index}`,
          content: Buffer.alloc(1_000_000),
        })),
      ),
      /larger than 50 MB/,
    ],
    [rawZip([{ name: "a", content: "x", claimedSize: 300_000_000 }]), /larger than 50 MB/],
    [Buffer.from("not a zip"), /cannot be unpacked: End of central directory/i],
    [zipOf({ "main.py": mainPy }).subarray(0, 60), /cannot be unpacked/],
    [rawZip([]), /has no files/],
  ];
  for (const [zip, reason] of cases) {
    const { uploadUrl, buildId } = await start();
    assert.equal((await put(uploadUrl, { body: zip })).status, 200);
    const build = await ended(buildId);
    assert.equal(build.status, "build_failure", String(reason));
    assert.match(build.reason ?? "", reason);
  }
  assert.deepEqual(readdirSync(join(folder, "sources")), []);
  assert.equal(existsSync(join(folder, "evil.py")), false);
});

test("a zip whose names are too long for the disk says so", async (t) => {
  // Each name is short enough, but not below this folder.
  const deep = Array.from({ length: 8 }, () => "f".repeat(200));
  const folder = join(temporaryFolder(t, "unpacked"), ...deep);
  const zipPath = join(temporaryFolder(t, "zipped"), "zip");
  const name = Array.from({ length: 12 }, () => "語".repeat(80)).join("/");
  writeFileSync(zipPath, rawZip([{ name, content: "x" }]));
  await assert.rejects(
    unpack({ zipPath, folder, bytesMax: 1000 }, { log: () => undefined, signal: t.signal }),
    /cannot be unpacked: one of its names is too long, or cannot be stored/,
  );
});

test("a zip with backslashes between its folders unpacks as one with slashes", async (t) => {
  const folder = temporaryFolder(t, "unpacked");
  const zipPath = join(folder, "zip");
  const entries = [
    { name: "sub\\" },
    { name: "sub\\deep\\x.txt", content: "x" },
    { name: "main.py", content: "" },
  ];
  writeFileSync(zipPath, rawZip(entries));
  const work = { log: () => undefined, signal: new AbortController().signal };
  const { appDir } = await unpack({ zipPath, folder: join(folder, "files"), bytesMax: 1000 }, work);
  assert.deepEqual(readdirSync(appDir, { recursive: true }).toSorted(), [
    "main.py",
    "sub",
    "sub/deep",
    "sub/deep/x.txt",
  ]);
  const twice = [
    { name: "a\\x", content: "1" },
    { name: "a/x", content: "2" },
  ];
  writeFileSync(zipPath, rawZip(twice));
  await assert.rejects(
    unpack({ zipPath, folder: join(folder, "files"), bytesMax: 1000 }, work),
    /holds "a\/x" twice/,
  );
});

test("every folder of a zip counts, also one that is only above another", async (t) => {
  const folder = temporaryFolder(t, "unpacked");
  const zipPath = join(folder, "zip");
  writeFileSync(
    zipPath,
    rawZip([{ name: `b/${"a/".repeat(4)}` }, { name: `b/${"c/".repeat(4)}x`, content: "x" }]),
  );
  const work = { log: () => undefined, signal: new AbortController().signal };
  const given = { zipPath, folder: join(folder, "files"), bytesMax: 1000 };
  await assert.rejects(unpack({ ...given, foldersMax: 8 }, work), {
    message: "The upload has more than 8 folders.",
  });
  assert.match((await unpack({ ...given, foldersMax: 9 }, work)).appDir, /app$/);
});

test("a small zip that unpacks to a multiple of its size is refused before anything of it is written", async (t) => {
  const dir = temporaryFolder(t, "unpacked");
  const zipPath = join(dir, "zip");
  const work = { log: () => undefined, signal: new AbortController().signal };
  const given = { zipPath, folder: join(dir, "files"), bytesMax: 10_000_000_000 };
  writeFileSync(
    zipPath,
    rawZip([
      { name: "a", content: "x".repeat(10) },
      { name: "b", claimedSize: 256_000_001 },
    ]),
  );
  await assert.rejects(unpack(given, work), {
    message: /^The upload unpacks to more than 200 times its size/,
  });
  assert.deepEqual(readdirSync(join(dir, "files/app")), []);
  // Small files may be packed as well as they can be.
  writeFileSync(zipPath, rawZip([{ name: "zeros", content: Buffer.alloc(5_000_000) }]));
  await unpack(given, work);
});

test("requests and uploads that cannot be are refused with what to do", async (t) => {
  const { deploy, start, api } = await stage(t, { withQueue: false });
  const cases: readonly (readonly [object, number, RegExp])[] = [
    [
      { runtime: "deepgram" },
      422,
      /^runtime is "deepgram", but services of partners are not part of this platform/,
    ],
    [
      { partnerService: { name: "rime" } },
      422,
      /^partnerService is given, but services of partners/,
    ],
    [
      { gitRepo: "a/b" },
      400,
      /^gitRepo is given, but the files of this request are uploaded; POST …\/apps\/git/,
    ],
    [
      { shellCommands: ["rm"] },
      400,
      /^shellCommands is \["rm"\], but shell_commands in the TOML file is \[\]/,
    ],
    [{ cerebrium_toml: "a", config_toml: "a" }, 400, /mean the same/],
    [{ cerebrium_toml: "a = " }, 400, /config_toml is not valid TOML at line 1/],
    [{ include: 5 }, 400, /^include is 5, but must be/],
    [{ name: "A" }, 400, /^name is "A", but must be/],
    [{ disableBuildLog: true }, 400, /^"disableBuildLog" is not a field/],
  ];
  for (const [body, status, message] of cases) {
    const answer = await deploy(body);
    assert.deepEqual(
      [answer.status, message.test(answer.body.message)],
      [status, true],
      JSON.stringify(answer.body),
    );
  }
  const partner = await api.call("POST", `/v2/projects/${api.projectId}/partner-apps`, {
    body: { name: "x" },
  });
  assert.equal(partner.status, 422);
  assert.equal(
    (await put(`${api.baseUrl}/v2/uploads/${"x".repeat(43)}`, { body: Buffer.from("x") })).status,
    404,
  );

  const first = await start();
  const large = await put(first.uploadUrl, { body: Buffer.alloc(1_000_001) });
  assert.deepEqual(
    [large.status, large.body.message],
    [413, "The upload is larger than 1 MB (SLIPWAY_UPLOAD_SIZE_MB)."],
  );
  assert.equal((await put(first.uploadUrl, { body: Buffer.alloc(0) })).status, 400);
  for (const range of ["bytes 0-5", "bytes 5-0/10", "bytes 0-10/10", "bytes 0-1/10"])
    assert.equal(
      (await put(first.uploadUrl, { body: Buffer.from("abc"), range })).status,
      400,
      range,
    );
  const second = await start();
  const replaced = await put(first.uploadUrl, { body: zipOf({ "main.py": mainPy }) });
  assert.equal(replaced.status, 422, "a newer deployment took its place");
  const cancelled = await api.call(
    "DELETE",
    `/v2/projects/${api.projectId}/apps/hello/builds/${second.buildId}`,
  );
  assert.equal(cancelled.status, 200);
  assert.equal((await put(second.uploadUrl, { body: zipOf({ "main.py": mainPy }) })).status, 422);
});

test("an upload to an app with a repository is a build of that app, and what its file says ends with it", async (t) => {
  const { api, start, deploy } = await stage(t, { withQueue: false });
  const path = `/v2/projects/${api.projectId}/apps/git`;
  assert.equal(
    (await api.call("POST", path, { body: { name: "hello", gitRepo: "acme/app" } })).status,
    201,
  );
  await start({ cerebrium_toml: toml });
  const app = await api.db
    .selectFrom("apps")
    .select(["request", "config_toml"])
    .executeTakeFirstOrThrow();
  assert.deepEqual(app, { request: { name: "hello", gitRepo: "acme/app" }, config_toml: null });
  const builds = await api.db
    .selectFrom("builds")
    .select(["config_toml", "awaits_upload"])
    .orderBy("number")
    .execute();
  assert.deepEqual(builds, [
    { config_toml: null, awaits_upload: false },
    { config_toml: toml, awaits_upload: true },
  ]);
  const creator = await createOnly(api);
  const refused = await deploy({}, creator);
  assert.deepEqual(
    [refused.status, refused.body.message],
    [403, "The caller may not do this: it lacks the permission builds.create."],
  );
});

async function createOnly(api: ApiUnderTest): Promise<string> {
  const body = { name: "creator", permissions: ["apps.create"] };
  const made = await api.call("POST", `/v2/projects/${api.projectId}/service-accounts`, { body });
  return (made.body as Json).token as string;
}

test("a deployment that repeats the settings with new credentials records only these as a change", async (t) => {
  const { api, start } = await stage(t, { withQueue: false });
  await start({ cpu: 2 });
  await start({ cpu: 2, dockerAuth: "me:hush" });
  const rows = await api.db
    .selectFrom("audit_log")
    .select("changes")
    .where("action", "=", "build.create")
    .execute();
  assert.deepEqual(
    rows.map(({ changes }) => Object.keys(changes ?? {})),
    [["dockerAuth"]],
  );
});

test("the files of a build can be downloaded by who may deploy, as they were sent, while they are kept", async (t) => {
  const { api, start } = await stage(t, { withQueue: false });
  const app = `/v2/projects/${api.projectId}/apps/hello`;
  const zip = zipOf({ "main.py": mainPy });
  const { buildId, uploadUrl } = await start();
  const get = async (build: string, token = api.token) =>
    await fetch(`${api.baseUrl}${app}/builds/${build}/download`, {
      headers: { authorization: `Bearer ${token}` },
    });
  const early = await get(buildId);
  assert.deepEqual(
    [early.status, ((await early.json()) as Json).message],
    [409, "The files of this build have not arrived."],
  );
  assert.equal((await put(uploadUrl, { body: zip })).status, 200);
  const answer = await get(buildId);
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get("content-type"), "application/zip");
  assert.equal(answer.headers.get("content-disposition"), `attachment; filename="${buildId}.zip"`);
  assert.ok(Buffer.from(await answer.arrayBuffer()).equals(zip));
  const entries = api.db
    .selectFrom("audit_log")
    .select(["resource_id", "outcome"])
    .where("action", "=", "build.download");
  assert.deepEqual(
    await entries.orderBy("outcome").execute(),
    ["failure", "success"].map((outcome) => ({ resource_id: buildId, outcome })),
  );

  const other = await start({ name: "other" });
  assert.equal((await get(other.buildId)).status, 404, "a build of another app");
  assert.equal(
    (await get(buildId, await api.issue({ kind: "service_account", role: "billing" }))).status,
    403,
  );
  const git = await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, {
    body: { name: "linked", gitRepo: "a/b" },
  });
  const linked = await api.call(
    "GET",
    `/v2/projects/${api.projectId}/apps/linked/builds/${git.body.buildId}/download`,
  );
  assert.deepEqual(
    [linked.status, linked.body.message],
    [409, "The files of this build were not uploaded: they are in its repository."],
  );
  await api.db.updateTable("uploads").set({ removed_at: new Date() }).execute();
  assert.match(
    ((await (await get(buildId)).json()) as Json).message,
    /were removed, since newer ones/,
  );
});
