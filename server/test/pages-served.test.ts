// The pages as they are served, for machines without a browser: each file that another one names is there, with its type
// and a policy that allows no script, style or connection but the platform's own.
import assert from "node:assert/strict";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { startManagementApi } from "./support/management-api.ts";

const folder = join(import.meta.dirname, "../src/api/pages");
const types: Readonly<Record<string, string>> = {
  js: "text/javascript; charset=utf-8",
  css: "text/css; charset=utf-8",
};

test("every file of the pages is served with its type, and every import of a script leads to one", async (t) => {
  const api = await startManagementApi(t);
  const names = (await readdir(folder)).filter((name) => !name.endsWith(".html"));
  assert.ok(names.length > 8);
  for (const name of names) {
    const { status, headers, body } = await api.call("GET", `/dashboard/assets/${name}`, { token: null });
    assert.equal(status, 200, name);
    assert.equal(headers.get("content-type"), types[name.split(".").at(-1) ?? ""], name);
    assert.equal(headers.get("x-content-type-options"), "nosniff");
    const imports = [...String(body).matchAll(/^import [^;]*? from "\.\/([^"]+)";$/gm)].map(([, file]) => file ?? "");
    for (const file of imports) assert.ok(names.includes(file), `${name} imports ${file}`);
  }
});

test("every address of the dashboard and of the API reference is a page, which has no script or style of its own and may be framed by nobody", async (t) => {
  const api = await startManagementApi(t);
  const addresses = ["", "/device?code=BCDF-GHJK", "/account", "/invitations/a-secret", "/reset-password/a-secret"];
  for (const path of ["/docs", ...addresses.map((address) => `/dashboard${address}`)]) {
    const { status, headers, body } = await api.call("GET", path, { token: null });
    assert.deepEqual([status, headers.get("content-type")], [200, "text/html; charset=utf-8"]);
    const policy = headers.get("content-security-policy") ?? "";
    for (const part of ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]) {
      assert.ok(policy.includes(part), part);
    }
    assert.doesNotMatch(policy, /unsafe|\*|https?:/);
    // Secrets of links stand in addresses: no other page learns them.
    assert.equal(headers.get("referrer-policy"), "no-referrer");
    assert.doesNotMatch(String(body), /<script(?![^>]* src=)|<style|style=| on\w+=/);
    for (const [, file] of String(body).matchAll(/(?:src|href)="(\/dashboard\/assets\/[^"]+)"/g)) {
      assert.equal((await api.call("GET", file ?? "", { token: null })).status, 200, file);
    }
  }
});
