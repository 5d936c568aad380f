// The pages as they are served, for machines without a browser: each file that another one names is
// there, with its type and a policy that allows no script, style or connection but the platform's
// own; and what is served before they are built, and after they were built anew.
import assert from "node:assert/strict";
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { METHODS, request } from "node:http";
import { join } from "node:path";
import { test } from "node:test";
import { brotliDecompressSync, gunzipSync, gzipSync } from "node:zlib";
import { fastify } from "fastify";
import { DashboardFiles } from "#api/dashboard-files.ts";
import { TrustedProxies } from "#lib/trusted-proxies.ts";
import { OtherMethods } from "#api/other-methods.ts";
import { addPages } from "#api/pages.ts";
import { temporaryFolder } from "./support/folder.ts";
import { startManagementApi, type ApiUnderTest } from "./support/management-api.ts";

const types: Readonly<Record<string, string>> = {
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
  svg: "image/svg+xml",
};

/**
 * In names of XML languages and of forms of JSON schemas, and in messages of packages that say
 * where they are explained; none is asked for anything.
 */
const namedHosts = [
  "example.com",
  "www.w3.org",
  "json-schema.org",
  "react.dev",
  "redux.js.org",
  "redux-toolkit.js.org",
  "mantine.dev",
  "bit.ly",
  "localhost",
];

/** Every file that the page, or another one, names. */
async function namedFiles(api: ApiUnderTest): Promise<Map<string, string>> {
  const { body } = await api.call("GET", "/dashboard", { token: null });
  const files = new Map<string, string>();
  const waiting = [...String(body).matchAll(/(?:src|href)="(\/dashboard\/[^"]+)"/g)].map(
    ([, path = ""]) => path,
  );
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (files.has(path)) continue;
    const answer = await api.call("GET", path, { token: null });
    assert.equal(answer.status, 200, path);
    const type = answer.headers.get("content-type") ?? "";
    assert.equal(type, types[path.split(".").at(-1) ?? ""], path);
    assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
    files.set(path, String(answer.body));
    // Chunks that are loaded on demand are named by their path below the base, or beside the file.
    for (const [, name = ""] of String(answer.body).matchAll(
      /["'`](?:\.\/|assets\/)([\w.-]+\.(?:js|css))["'`]/g,
    )) {
      waiting.push(`/dashboard/assets/${name}`);
    }
  }
  return files;
}

test("every file of the pages is served with its type, kept by its hash, and names no other host", async (t) => {
  const api = await startManagementApi(t);
  const files = await namedFiles(api);
  assert.ok(files.size > 12, `${files.size} files`);
  for (const path of files.keys()) {
    const { headers } = await api.call("GET", path, { token: null });
    const isHashed = /-[\w-]{8}\.\w+$/.test(path);
    const kept = isHashed ? "public, max-age=31536000, immutable" : "no-cache";
    assert.equal(headers.get("cache-control"), kept, path);
  }
  for (const [path, text] of files) {
    if (path.endsWith(".css")) assert.doesNotMatch(text, /url\(|@import/, path);
    const hosts = [...text.matchAll(/https?:\/\/([\w.-]+)/g)].map(([, host = ""]) => host);
    assert.deepEqual(
      hosts.filter((host) => !namedHosts.includes(host)),
      [],
      path,
    );
  }
  const { status } = await api.call("GET", "/dashboard/assets/other-12345678.js", { token: null });
  assert.equal(status, 404);
  const root = await api.call("GET", "/", { token: null });
  assert.deepEqual([root.status, root.headers.get("location")], [302, "/dashboard"]);
});

test("every address of the dashboard and of the API reference is a page, which has no script or style of its own and may be framed by nobody", async (t) => {
  const api = await startManagementApi(t);
  const addresses = [
    "",
    "/device?code=BCDF-GHJK",
    "/account",
    "/invitations/a-secret",
    "/reset-password/a-secret",
  ];
  for (const path of ["/docs", ...addresses.map((address) => `/dashboard${address}`)]) {
    const { status, headers, body } = await api.call("GET", path, { token: null });
    assert.deepEqual([status, headers.get("content-type")], [200, "text/html; charset=utf-8"]);
    const policy = headers.get("content-security-policy") ?? "";
    const demanded = [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "connect-src 'self'",
    ];
    for (const part of [...demanded, "frame-ancestors 'none'"])
      assert.ok(policy.includes(part), part);
    assert.doesNotMatch(policy, /unsafe|nonce|data:|\*|https?:/);
    // Secrets of links stand in addresses: no other page learns them.
    assert.equal(headers.get("referrer-policy"), "no-referrer");
    assert.doesNotMatch(String(body), /<script(?![^>]* src=)|<style|style=| on\w+=/);
    for (const [, file] of String(body).matchAll(
      /(?:src|href)="(\/(?:dashboard|docs)\/assets\/[^"]+)"/g,
    )) {
      assert.equal((await api.call("GET", file ?? "", { token: null })).status, 200, file);
    }
  }
});

test("every file of the API reference is served with its type, and every import of a script leads to one", async (t) => {
  const api = await startManagementApi(t);
  const names = (await readdir(join(import.meta.dirname, "../src/api/pages"))).filter(
    (name) => !name.endsWith(".html"),
  );
  assert.ok(names.length > 5);
  for (const name of names) {
    const { status, headers, body } = await api.call("GET", `/docs/assets/${name}`, {
      token: null,
    });
    assert.equal(status, 200, name);
    assert.equal(headers.get("content-type"), types[name.split(".").at(-1) ?? ""], name);
    const imports = [...String(body).matchAll(/^import [^;]*? from "\.\/([^"]+)";$/gm)].map(
      ([, file]) => file ?? "",
    );
    for (const file of imports) assert.ok(names.includes(file), `${name} imports ${file}`);
  }
});

/** The bytes of an answer as they are sent. */
function bytesOf(
  url: string,
  accepted: string,
): Promise<{ encoding: string | undefined; bytes: Buffer }> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { headers: { "accept-encoding": accepted } }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("end", () =>
        resolve({ encoding: response.headers["content-encoding"], bytes: Buffer.concat(chunks) }),
      );
    });
    sent.on("error", reject);
    sent.end();
  });
}

test("a file is sent in the best form that the browser takes, and is the same in each", async (t) => {
  const api = await startManagementApi(t);
  const { body } = await api.call("GET", "/dashboard", { token: null });
  const path = /src="(\/dashboard\/assets\/[^"]+\.js)"/.exec(String(body))?.[1] ?? "";
  const [plain, gzip, br, refused] = await Promise.all(
    ["identity", "gzip, deflate", "gzip, deflate, br", "br; q=0, gzip;q=0"].map((accepted) =>
      bytesOf(api.baseUrl + path, accepted),
    ),
  );
  assert.deepEqual(
    [plain, gzip, br, refused].map((one) => one?.encoding),
    [undefined, "gzip", "br", undefined],
  );
  const text = plain?.bytes.toString() ?? "";
  assert.ok(text.length > 10_000);
  assert.equal(gunzipSync(gzip?.bytes ?? "").toString(), text);
  assert.equal(brotliDecompressSync(br?.bytes ?? "").toString(), text);
  assert.equal(refused?.bytes.toString(), text);
});

/** As a build leaves it. */
function writeBuild(folder: string, text: string): void {
  mkdirSync(join(folder, "assets"), { recursive: true });
  writeFileSync(join(folder, "index.html"), text);
  writeFileSync(join(folder, "assets", `${text}.js`), text);
  writeFileSync(join(folder, "assets", `${text}.js.gz`), gzipSync(text));
}

test("a build that ends while the platform runs takes the place of the one before, of which nothing is left", (t) => {
  const folder = temporaryFolder(t, "dashboard");
  const files = new DashboardFiles(folder);
  assert.deepEqual(
    [files.page(), files.file("assets/first.js"), files.problem()],
    [null, null, null],
  );
  writeFileSync(join(folder, "problem.txt"), "The registry is <gone>.");
  assert.equal(files.problem(), "The registry is <gone>.");
  writeBuild(join(folder, "pages"), "first");
  assert.equal(files.file("assets/first.js")?.plain.toString(), "first");
  assert.equal(files.page()?.plain.toString(), "first");
  renameSync(join(folder, "pages"), join(folder, "old"));
  assert.equal(files.page()?.plain.toString(), "first", "between two builds");
  writeBuild(join(folder, "pages"), "second");
  assert.equal(files.page()?.plain.toString(), "second");
  assert.equal(gunzipSync(files.file("assets/second.js")?.gzip ?? "").toString(), "second");
  assert.equal(files.file("assets/first.js"), null);
  for (const name of ["../problem.txt", "assets/../index.html", "assets/second.js.gz"]) {
    assert.equal(files.file(name), null, name);
  }
});

test("until the pages are built, every address says so, or why not, and looks again by itself", async (t) => {
  const folder = temporaryFolder(t, "dashboard");
  const api = fastify();
  for (const method of METHODS)
    if (!api.supportedMethods.includes(method)) api.addHttpMethod(method);
  addPages(api, new OtherMethods(api), {
    files: new DashboardFiles(folder),
    pagesHost: null,
    trustedProxies: new TrustedProxies([]),
    urls: () => assert.fail("at any name, no page is refused"),
  });
  t.after(() => api.close());
  const ask = (
    url: string,
  ): Promise<{ statusCode: number; body: string; headers: Record<string, unknown> }> =>
    api.inject({ method: "GET", url });
  const first = await ask("/dashboard/account");
  assert.equal(first.statusCode, 503);
  assert.match(first.body, /is being built.*<code>npm run dashboard<\/code>/);
  assert.deepEqual([first.headers["retry-after"], first.headers["refresh"]], ["2", "2"]);
  assert.doesNotMatch(first.body, /<script|<style|style=/);
  writeFileSync(join(folder, "problem.txt"), "The registry is <b>gone</b>.");
  const failed = await ask("/dashboard");
  assert.match(
    failed.body,
    /could not be built.*<pre>The registry is &lt;b&gt;gone&lt;\/b&gt;\.<\/pre>/,
  );
  writeBuild(join(folder, "pages"), "built");
  const built = await ask("/dashboard");
  assert.deepEqual(
    [built.statusCode, built.body, built.headers["refresh"]],
    [200, "built", undefined],
  );
});
