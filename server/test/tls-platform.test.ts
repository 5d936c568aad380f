// A platform with certificates of its own, as the guide "Domains and TLS" sets it up: curl and a
// browser reach it over HTTP/2 and HTTP/1.1.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { copyFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { findBrowser, startBrowser } from "./support/browser.ts";
import { temporaryFolder } from "./support/folder.ts";
import { freePorts } from "./support/free-ports.ts";
import { startPlatform } from "./support/platform-process.ts";
import { noOpenssl, TestAuthority } from "./support/tls-files.ts";
import { until } from "./support/until.ts";

const version = spawnSync("curl", ["--version"], { encoding: "utf8", timeout: 10_000 }).stdout;
const noCurl = /\bHTTP2\b/.test(version ?? "") ? false : "curl with HTTP/2 is not installed here";
const browser = findBrowser();
const noBrowser = "missing" in browser ? browser.missing : false;

test(
  "a platform with certificates answers over HTTP/2 and HTTP/1.1, and reads new files",
  { skip: noOpenssl || noCurl },
  async (t) => {
    const folder = temporaryFolder(t, "tls");
    const authority = new TestAuthority(folder);
    const files = authority.sign("own", ["localhost", "*.example.org"]);
    const [port = "", tlsPort = "", metricsPort = ""] = await freePorts(3);
    const platform = await startPlatform(t, {
      SLIPWAY_PORT: port,
      SLIPWAY_TLS_PORT: tlsPort,
      SLIPWAY_TLS_CERTIFICATE: files.certificateFile,
      SLIPWAY_TLS_KEY: files.keyFile,
      SLIPWAY_PUBLIC_URL: `https://slipway.example.org:${tlsPort}`,
      SLIPWAY_HSTS_SECONDS: "600",
      SLIPWAY_METRICS_ADDRESS: `127.0.0.1:${metricsPort}`,
    });
    const shown = "\n%{http_version} %{http_code} %header{strict-transport-security}";
    const common = ["-sS", "--cacert", authority.file, "--max-time", "20", "--write-out", shown];
    const curlAt = (host: string, path: string, ...more: string[]): string => {
      const way = ["--connect-to", `${host}:${tlsPort}:localhost:${tlsPort}`];
      const parameters = [...common, ...way, ...more, `https://${host}:${tlsPort}${path}`];
      return execFileSync("curl", parameters, { encoding: "utf8" });
    };
    const curl = (path: string, ...more: string[]): string => curlAt("localhost", path, ...more);
    assert.match(curl("/healthz", "--http2"), /\n2 200 max-age=600$/);
    assert.match(curl("/healthz", "--http1.1"), /\n1\.1 200 max-age=600$/);
    // A name that leads here without being an app's shows no page that people could trust.
    for (const version of ["--http2", "--http1.1"]) {
      assert.match(curlAt("slipway.example.org", "/docs", version), / 200 /);
      assert.match(curlAt("localhost", "/docs", version), / 200 /);
      for (const path of ["/", "/dashboard", "/docs"]) {
        const answer = curlAt("shop.example.org", path, version);
        assert.match(answer, /pages are at https:\/\/slipway\.example\.org:.* 404 /s);
      }
      assert.match(curlAt("shop.example.org", "/healthz", version), / 200 /);
    }
    const { projectId, inferenceToken } = platform.bootstrap;
    const call = ["--http2", "--header", `Authorization: Bearer ${inferenceToken}`];
    assert.match(curl(`/v4/${projectId}/nobody/run`, ...call), /"message".*\n2 404 max-age=600$/s);
    const large = join(folder, "large.json");
    writeFileSync(large, Buffer.alloc(8_000_000, "x"));
    const json = ["--header", "Content-Type: application/json", "--data-binary", `@${large}`];
    assert.match(curl("/v2/auth/sign-in", "--http2", ...json), /"message".*\n2 413 /s);
    const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
    const [, end] = /^slipway_tls_certificate_end_seconds (\d+)$/m.exec(metrics) ?? [];
    assert.ok(Math.abs(Number(end) * 1000 - Date.now() - 30 * 86_400_000) < 86_400_000, end);
    const next = authority.sign("next", ["localhost"]);
    copyFileSync(next.certificateFile, files.certificateFile);
    copyFileSync(next.keyFile, files.keyFile);
    await until("the new certificate is in use", () =>
      platform.output().includes("a new TLS certificate is in use"),
    );
    assert.match(curl("/healthz", "--http2"), /\n2 200 /);
  },
);

test("a browser opens the dashboard over HTTP/2", { skip: noOpenssl || noBrowser }, async (t) => {
  assert.ok("program" in browser);
  const authority = new TestAuthority(temporaryFolder(t, "tls"));
  const files = authority.sign("own", ["localhost"]);
  const [tlsPort = ""] = await freePorts(1);
  await startPlatform(t, {
    SLIPWAY_TLS_PORT: tlsPort,
    SLIPWAY_TLS_CERTIFICATE: files.certificateFile,
    SLIPWAY_TLS_KEY: files.keyFile,
    SLIPWAY_PUBLIC_URL: `https://localhost:${tlsPort}`,
  });
  const chromium = await startBrowser(t, browser.program, ["--ignore-certificate-errors"]);
  const page = await chromium.open();
  await page.goTo(`https://localhost:${tlsPort}/dashboard`);
  await page.shows("Sign in");
  const protocols = await page.evaluate(
    "[...new Set(performance.getEntries().map((entry) => entry.nextHopProtocol).filter(Boolean))]",
  );
  assert.deepEqual(protocols, ["h2"]);
});
