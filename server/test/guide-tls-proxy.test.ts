// The guide "Behind a TLS proxy", taken from the guide itself: nginx runs with the settings that it
// shows before a real platform, and lets through what it promises. And what all guides for
// operators name as settings are settings.
import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { get, request } from "node:https";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { settingTable } from "#config-table.ts";
import { temporaryFolder } from "./support/folder.ts";
import { freePorts } from "./support/free-ports.ts";
import { startPlatform } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

const guides = join(import.meta.dirname, "../../docs/guides");
const read = (name: string): string => readFileSync(join(guides, name), "utf8");
const isThere = (program: string, flag: string): boolean =>
  spawnSync(program, [flag], { timeout: 10_000 }).status === 0;
const noNginx =
  isThere("nginx", "-v") && isThere("openssl", "version")
    ? false
    : "nginx and openssl are not installed here";

test("every setting that the guides for operators name is one", () => {
  for (const name of [
    "backup-and-restore.md",
    "behind-a-tls-proxy.md",
    "domains-and-tls.md",
    "monitoring.md",
    "upgrading.md",
  ]) {
    for (const [setting] of read(name).matchAll(/\bSLIPWAY_[A-Z][A-Z_]*[A-Z]\b/g)) {
      assert.ok(Object.hasOwn(settingTable, setting), `${name}: ${setting}`);
    }
  }
});

/** nginx with the guide's site on a free port, before the platform's; returns its port. */
async function startNginx(t: TestContext, platformPort: string): Promise<string> {
  const folder = temporaryFolder(t, "nginx");
  const [port = ""] = await freePorts(1);
  const key = join(folder, "slipway.key");
  const pem = join(folder, "slipway.pem");
  const subject = ["-subj", "/CN=slipway.example.org", "-days", "1", "-nodes", "-newkey", "ec"];
  const curve = ["-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", key, "-out", pem];
  execFileSync("openssl", ["req", "-x509", ...subject, ...curve], {
    stdio: "ignore",
    timeout: 30_000,
  });
  const [, site = ""] =
    /<!-- nginx -->\n```nginx\n([\s\S]*?)```/.exec(read("behind-a-tls-proxy.md")) ?? [];
  const shown = {
    "127.0.0.1:7070": `127.0.0.1:${platformPort}`,
    "listen 443 ssl": `listen 127.0.0.1:${port} ssl`,
  };
  let own = site;
  for (const [from, to] of Object.entries({
    ...shown,
    "/etc/ssl/slipway.pem": pem,
    "/etc/ssl/slipway.key": key,
  })) {
    assert.ok(own.includes(from), from);
    own = own.replaceAll(from, to);
  }
  const folders = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map(
    (kind) => `${kind}_temp_path ${join(folder, kind)};`,
  );
  const file = join(folder, "nginx.conf");
  const frame = `daemon off; worker_processes 1; pid ${join(folder, "pid")}; error_log stderr; events {}\n`;
  writeFileSync(file, `${frame}http { access_log off; ${folders.join(" ")}\n${own}}\n`);
  const nginx = spawn("nginx", ["-c", file, "-p", folder, "-e", "stderr"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  nginx.stderr.on("data", (chunk: Buffer) => (said += chunk.toString()));
  t.after(async () => {
    nginx.kill("SIGQUIT");
    await until("nginx ends", () => nginx.exitCode !== null || nginx.signalCode !== null);
  });
  const answers = (): Promise<boolean> =>
    new Promise((resolve) => {
      const asked = get(
        `https://127.0.0.1:${port}/healthz`,
        { rejectUnauthorized: false },
        (response) => {
          response.resume();
          resolve(response.statusCode === 200);
        },
      );
      asked.once("error", () => resolve(false));
    });
  await until("nginx answers", answers, { deadlineMs: 30_000 }).catch(() => assert.fail(said));
  return port;
}

test("nginx as the guide has it lets clients through as they are", { skip: noNginx }, async (t) => {
  const [platformPort = ""] = await freePorts(1);
  const platform = await startPlatform(t, {
    SLIPWAY_PORT: platformPort,
    SLIPWAY_PUBLIC_URL: "https://slipway.example.org",
    SLIPWAY_TRUSTED_PROXIES: "127.0.0.1,::1",
  });
  const port = await startNginx(t, platformPort);
  const { projectId, ownerEmail } = platform.bootstrap;
  const ask = async (path: string, headers: Record<string, string>, body?: Buffer) => {
    const method = body === undefined ? "GET" : "POST";
    // A connection of its own for each: nginx closes one whose body it did not read to its end,
    // though it says keep-alive.
    const options = { rejectUnauthorized: false, agent: false, method, headers };
    const asked = request(`https://127.0.0.1:${port}${path}`, options);
    asked.end(body);
    const [response] = await once(asked, "response");
    const parts: Buffer[] = await response.toArray();
    return {
      status: response.statusCode as number,
      text: Buffer.concat(parts).toString(),
      headers: response.headers,
    };
  };
  const json = { "content-type": "application/json" };
  const signIn = Buffer.from(JSON.stringify({ email: ownerEmail, password: "wrong-password" }));
  assert.equal((await ask("/v2/auth/sign-in", json, signIn)).status, 401);
  const large = Buffer.alloc(8_000_000, "x");
  const call = await ask(`/v4/${projectId}/nobody/run`, json, large);
  assert.equal(call.status, 401, "the platform answers, not nginx with its limit of 1 MB");
  assert.equal((await ask("/v2/auth/sign-in", json, large)).status, 413);
});
