// Files of Git LFS: downloaded in the place of their pointers where the app wants it, checked,
// bounded, and from nowhere else.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readdir, readFile, stat } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { BuildFailed } from "#drivers/builder.ts";
import { Secret } from "#lib/secret.ts";
import { startGitServer, type GitServer } from "#test/support/git-server.ts";
import { lfsServer } from "#test/support/lfs-server.ts";
import { openSource } from "#test/support/source.ts";

const attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n";
const weights = "weights ".repeat(1000);

async function openLfs(t: TestContext, credentials?: string) {
  const origin = { text: "" };
  const lfs = lfsServer(() => origin.text, credentials);
  const given = credentials === undefined ? {} : { credentials };
  const server: GitServer = await startGitServer(t, { intercept: lfs.intercept, ...given });
  origin.text = `http://${server.host}`;
  return { lfs, server };
}

async function refusal(fetching: Promise<unknown>): Promise<string> {
  const error = await fetching.then(
    () => assert.fail("it was fetched"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof BuildFailed, String(error));
  return error.message;
}

test("files of Git LFS take the place of their pointers, each asked for once, with their modes", async (t) => {
  const { lfs, server } = await openLfs(t);
  const pointer = lfs.add(weights);
  const script = "#!/bin/sh\necho from lfs, in more than a hundred bytes\n";
  const run = lfs.add(script);
  await server.createRepo("acme", "app", {
    ".gitattributes": `${attributes}*.sh filter=lfs\n`,
    "main.py": "",
    "model.bin": pointer,
    "apps/api/model.bin": pointer,
    "apps/api/run.sh": run,
    "apps/api/run.bin": run,
    "apps/api/main.py": "",
  });
  const { fetch, lines } = openSource(t, server);
  const { appDir, content, commit } = await fetch({ gitLfs: true });
  assert.equal(await readFile(join(appDir, "model.bin"), "utf8"), weights);
  assert.equal(await readFile(join(appDir, "apps/api/model.bin"), "utf8"), weights);
  const modes = ["run.sh", "run.bin"].map(async (name) => {
    const path = join(appDir, "apps/api", name);
    assert.equal(await readFile(path, "utf8"), script);
    return (await stat(path)).mode & 0o111;
  });
  assert.deepEqual(
    (await Promise.all(modes)).map((bits) => bits !== 0),
    [true, false],
  );
  assert.notEqual(content, commit, "another result than without LFS");
  assert.deepEqual([lfs.batches.length, lfs.batches[0]?.length], [1, 2]);
  assert.ok(lines.includes("Fetching 4 files of Git LFS …"), lines.join("\n"));
  // Attributes of a folder around the app's count, too.
  const { appDir: api } = await fetch({ gitLfs: true, gitPath: "apps/api" });
  assert.equal(await readFile(join(api, "model.bin"), "utf8"), weights);
  const { appDir: off } = await fetch({ gitPath: "apps/api" });
  assert.equal(await readFile(join(off, "model.bin"), "utf8"), pointer);
  const said =
    "To fetch them: set gitLfs of the app to true, or lfs = true below [slipway.git] in its slipway.toml.";
  assert.ok(
    lines.some((line) => line.includes(said)),
    lines.join("\n"),
  );
});

test("a file of Git LFS that a link leads to takes the link's place", async (t) => {
  const { lfs, server } = await openLfs(t);
  await server.createRepo("acme", "app", {
    ".gitattributes": attributes,
    "shared/model.bin": lfs.add(weights),
    "apps/api/main.py": "",
    "apps/api/model.bin": { link: "../../shared/model.bin" },
  });
  const { fetch } = openSource(t, server);
  const { appDir } = await fetch({ gitLfs: true, gitPath: "apps/api" });
  assert.equal(await readFile(join(appDir, "model.bin"), "utf8"), weights);
});

test("the credential of the git host goes to it alone, with nothing of another host's header", async (t) => {
  const { lfs, server } = await openLfs(t, "me:hush");
  await server.createRepo("acme", "app", {
    ".gitattributes": attributes,
    "a.bin": lfs.add(weights),
  });
  const credential = { kind: "token", username: "me", secret: new Secret("hush") } as const;
  const own = openSource(t, { ...server, credential });
  const { appDir } = await own.fetch({ gitLfs: true });
  assert.equal(await readFile(join(appDir, "a.bin"), "utf8"), weights);
  assert.equal(lfs.requests.length, 2);

  const seen: (string | undefined)[] = [];
  const store = createServer((request, response) => {
    seen.push(request.headers.authorization);
    response.end(weights);
  }).listen(0, "127.0.0.1");
  t.after(() => store.close());
  await once(store, "listening");
  const { port } = store.address() as AddressInfo;
  lfs.placeOf = () => ({ href: `http://127.0.0.1:${port}/a`, header: { Host: "x", "X-One": "1" } });
  assert.match(
    await refusal(own.fetch({ gitLfs: true })),
    /^a\.bin cannot be fetched .*its address is not allowed/,
  );
  assert.deepEqual(seen, []);
  // Where a redirect leads is checked, too.
  lfs.redirect = `http://127.0.0.1:${port}/a`;
  lfs.placeOf = (oid) => ({ href: `http://${server.host}/lfs-files/${oid}` });
  assert.match(await refusal(own.fetch({ gitLfs: true })), /its address is not allowed/);
  assert.deepEqual(seen, []);
  const open = openSource(t, { ...server, credential, allow: ["127.0.0.0/8"] });
  await open.fetch({ gitLfs: true });
  lfs.redirect = null;
  lfs.placeOf = () => ({ href: `http://127.0.0.1:${port}/a`, header: { Host: "x", "X-One": "1" } });
  await open.fetch({ gitLfs: true });
  assert.deepEqual(seen, [undefined, undefined]);
  const none = openSource(t, {
    ...server,
    credential: { ...credential, secret: new Secret("hush") },
  });
  lfs.placeOf = () => ({ href: "file:///etc/passwd" });
  assert.match(await refusal(none.fetch({ gitLfs: true })), /its address is not allowed/);
});

test("a server that sends no answer to read does not hold up the build", async (t) => {
  const { lfs, server } = await openLfs(t);
  await server.createRepo("acme", "app", {
    ".gitattributes": attributes,
    "a.bin": lfs.add(weights),
  });
  const switching = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n";
  const store = createServer(({ socket }) => socket.write(switching)).listen(0, "127.0.0.1");
  t.after(() => store.close());
  await once(store, "listening");
  const { port } = store.address() as AddressInfo;
  lfs.placeOf = () => ({ href: `http://127.0.0.1:${port}/a` });
  const { fetch } = openSource(t, { ...server, allow: ["127.0.0.0/8"] });
  assert.match(
    await refusal(fetch({ gitLfs: true })),
    /^a\.bin cannot be fetched .*closed without an answer\.$/,
  );
});

test("a file with other bytes than its pointer says, too many bytes, or none at all fails the build", async (t) => {
  const { lfs, server } = await openLfs(t);
  const cases: readonly [string, RegExp][] = [
    [
      lfs.add("a".repeat(500), "b".repeat(500)),
      /^a\.bin cannot be fetched from .* acme\/app: .*another digest/,
    ],
    [lfs.add("c".repeat(500), "c".repeat(499)), /it has 499 bytes, and its pointer says 500\.$/],
    [lfs.add("d".repeat(500), "d".repeat(9_000)), /larger than the 500 bytes of its pointer\.$/],
    [lfs.add("e").replace(/[0-9a-f]{64}/, "f".repeat(64)), /it has no such file \(404\)\.$/],
    [
      lfs.add("e").replace("size 1", "size 60000000"),
      /With its files of Git LFS, acme\/app is larger than 50 MB/,
    ],
  ];
  await server.createRepo("acme", "app", { ".gitattributes": attributes });
  const { fetch, sourcesDir } = openSource(t, server);
  for (const [pointer, form] of cases) {
    await server.push("acme", "app", { "a.bin": pointer });
    assert.match(await refusal(fetch({ gitLfs: true })), form);
    assert.deepEqual(
      (await readdir(sourcesDir)).filter((name) => name !== "known-hosts"),
      [],
    );
  }
});
