// `slipway up` and `down` on a data folder of their own, and a stored token of a service account:
// after `up`, commands work without a sign-in.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "./support/folder.ts";
import { commandsAt, type CommandEnd } from "./support/slipway-command.ts";
import { until } from "./support/until.ts";

/** Puts the command that found a platform running behind the other one. */
function latecomerLast(one: CommandEnd, other: CommandEnd): number {
  if (one.stderr.includes("runs already")) return 1;
  return other.stderr.includes("runs already") ? -1 : 0;
}

test("up starts a platform and signs in, says so the second time, and down ends it", async (t) => {
  const dataDir = temporaryFolder(t, "data");
  const env = {
    SLIPWAY_DATA_DIR: dataDir,
    SLIPWAY_PORT: "0",
    SLIPWAY_DRIVER: "process",
    SLIPWAY_TOKEN: "",
  };
  const slipway = commandsAt(t, { env });
  t.after(() => slipway(["down"]).ended);
  const [first, second] = await Promise.all([
    slipway(["up", "--json"]).ended,
    slipway(["up", "--json"]).ended,
  ]).then((both) => both.toSorted(latecomerLast));
  assert.ok(first !== undefined && second !== undefined);
  assert.deepEqual(
    [first.code, second.code, second.stdout],
    [0, 0, first.stdout],
    first.stderr + second.stderr,
  );
  assert.match(second.stderr, /^The platform runs already at /);
  assert.ok(!existsSync(join(dataDir, "platform.log.1")), "only one has begun a log");
  const { url, isSignedIn } = JSON.parse(first.stdout) as { url: string; isSignedIn: boolean };
  assert.ok(isSignedIn);
  assert.match(
    first.stderr,
    new RegExp(`^The platform runs at ${url} \\(ready after [\\d.]+ s\\)\\.\n`),
  );
  assert.ok(
    !first.stderr.includes(readBootstrap(dataDir)["ownerPassword"] ?? "?"),
    "the password stays in its file",
  );
  assert.equal(statSync(join(dataDir, "platform.log")).mode & 0o777, 0o600);

  const again = await slipway(["up"]).ended;
  assert.deepEqual([again.code, again.stdout], [0, ""]);
  assert.match(
    again.stderr,
    /^The platform runs already at .*\n[^]*Next, in an empty folder: slipway init/,
  );
  const who = await slipway(["whoami"]).ended;
  assert.match(
    who.stdout,
    /^You are the first service account at .*\nCommands use the project default/,
  );
  assert.match((await slipway(["apps"]).ended).stderr, /The project has no apps yet/);

  const other = commandsAt(t);
  const token = readBootstrap(dataDir)["serviceAccountToken"] ?? "";
  const kept = await other(["login", "--token", "--url", url], { input: `${token}\n` }).ended;
  assert.equal(kept.code, 0, kept.stderr);
  assert.ok(!kept.stderr.includes(token));
  assert.equal((await other(["apps"]).ended).code, 0);
  assert.match(
    (await other(["logout"]).ended).stderr,
    /token of a service account at .* was removed from this machine/,
  );
  assert.match((await other(["apps"]).ended).stderr, /You are not signed in/);
  const wrong = await other(["login", "--token", "--url", url], { input: "a.b.c" }).ended;
  assert.deepEqual([wrong.code, wrong.stderr.includes("a.b.c")], [3, false]);
  assert.equal(
    (await other(["login", "--token", "--url", url], { input: "hush hush" }).ended).code,
    2,
  );

  const ended = await slipway(["down"]).ended;
  assert.match(ended.stdout, /^The platform \(process \d+\) has stopped\.\n/);
  assert.match(
    (await slipway(["down"]).ended).stdout,
    /^Nothing of the data folder .* was running\.\n/,
  );
  assert.match((await slipway(["apps"]).ended).stderr, /cannot be reached \(ECONNREFUSED\)/);
});

test("up that is interrupted says that the platform goes on, and the next one waits for it", async (t) => {
  const dataDir = temporaryFolder(t, "data");
  const env = {
    SLIPWAY_DATA_DIR: dataDir,
    SLIPWAY_PORT: "0",
    SLIPWAY_DRIVER: "process",
    SLIPWAY_TOKEN: "",
  };
  const slipway = commandsAt(t, { env });
  t.after(() => slipway(["down"]).ended);
  const first = slipway(["up"]);
  await until("the platform has its data folder", () => existsSync(join(dataDir, "slipway.lock")));
  first.interrupt();
  const interrupted = await first.ended;
  assert.equal(interrupted.code, 130);
  assert.match(
    interrupted.stderr,
    /^The platform goes on starting\. To wait for it: slipway up\. To stop it: slipway down\./,
  );
  const second = await slipway(["up"]).ended;
  assert.deepEqual([second.code, second.stdout], [0, ""], second.stderr);
  assert.match(second.stderr, /^The platform runs at /);
  assert.match(readFileSync(join(dataDir, "platform.log"), "utf8"), /^slipway ready /m);
  assert.equal((await slipway(["down"]).ended).code, 0);
});

test("up shows why a platform does not start", async (t) => {
  const file = join(temporaryFolder(t, "data"), "a-file");
  writeFileSync(file, "");
  const cases: readonly [Record<string, string>, RegExp][] = [
    [
      { SLIPWAY_PORT: "many" },
      /SLIPWAY_PORT.*many[\s\S]*The platform did not start; see above\. .*slipway doctor/,
    ],
    [{ SLIPWAY_DATA_DIR: join(file, "data") }, /cannot be made or written: ENOTDIR/],
  ];
  for (const [settings, message] of cases) {
    const slipway = commandsAt(t, {
      env: { SLIPWAY_DATA_DIR: temporaryFolder(t, "data"), ...settings },
    });
    const ended = await slipway(["up"]).ended;
    assert.equal(ended.code, 1);
    assert.match(ended.stderr, message);
  }
});

test("in the platform's container, down and restart say what to do on the machine", async (t) => {
  const env = { SLIPWAY_DATA_DIR: temporaryFolder(t, "data"), SLIPWAY_CONTAINER: "true" };
  const slipway = commandsAt(t, { env });
  for (const [command, word] of [
    ["down", "stop"],
    ["restart", "restart"],
  ] as const) {
    const ended = await slipway([command]).ended;
    assert.equal(ended.code, 1);
    assert.match(ended.stderr, new RegExp(`On the machine: docker ${word} <container>`));
  }
});

test(
  "no token of the data folder is sent to another user who listens on the platform's port",
  { skip: process.getuid?.() === 0 ? false : "only root starts a program as another user" },
  async (t) => {
    const dataDir = temporaryFolder(t, "data");
    const program = `const server = require("node:http").createServer((request, response) => {
      console.log("token", request.headers.authorization);
      response.end("[]");
    });
    server.listen(0, "127.0.0.1", () => console.log(server.address().port));`;
    const stranger = spawn(process.execPath, ["-e", program], { uid: 65_534, cwd: "/" });
    const closed = once(stranger, "close");
    t.after(() => stranger.kill());
    let printed = "";
    stranger.stdout.on("data", (chunk: Buffer) => (printed += chunk.toString()));
    await until("the stranger listens", () => printed.endsWith("\n"));
    const port = printed.trim();
    const url = `http://127.0.0.1:${port}`;
    const tokens = { serviceAccountToken: "a.b.c", operatorToken: "o" };
    const people = { dashboardUrl: `${url}/dashboard`, ownerEmail: "ada@example.test" };
    writeFileSync(
      join(dataDir, "bootstrap.json"),
      JSON.stringify({ baseUrl: url, localUrl: url, ...tokens, ...people }),
    );
    // A platform that does not begin to start is enough here.
    const env = { SLIPWAY_DATA_DIR: dataDir };
    const started = await commandsAt(t, { env: { ...env, SLIPWAY_PORT: "many" } })(["up"]).ended;
    assert.deepEqual([started.code, started.stderr.includes("SLIPWAY_PORT")], [1, true]);
    const doctor = await commandsAt(t, { env: { ...env, SLIPWAY_PORT: port } })(["doctor"]).ended;
    assert.match(doctor.stdout, /a program of another user listens on the port of the platform/);
    stranger.kill();
    await closed;
    assert.doesNotMatch(printed, /token Bearer/);
  },
);

function readBootstrap(dataDir: string): Record<string, string> {
  return JSON.parse(readFileSync(join(dataDir, "bootstrap.json"), "utf8"));
}

const main = "def run():\n    return 'hello'\n";

test("a stranger at the public URL is named, gets one request without a token, and stops no command on the machine", async (t) => {
  const dataDir = temporaryFolder(t, "data");
  const asked: string[] = [];
  const server = createServer(({ method, url, headers }, response) => {
    asked.push(`${method} ${url} ${headers.authorization}`);
    response.end("[]");
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  t.after(() => server.close());
  const publicUrl = `http://localhost:${(server.address() as AddressInfo).port}`;
  const env = {
    SLIPWAY_DATA_DIR: dataDir,
    SLIPWAY_PORT: "0",
    SLIPWAY_DRIVER: "process",
    SLIPWAY_TOKEN: "",
    SLIPWAY_PUBLIC_URL: publicUrl,
  };
  const folder = temporaryFolder(t, "app");
  const slipway = commandsAt(t, { env, cwd: folder });
  t.after(() => slipway(["down"]).ended);
  const started = await slipway(["up", "--json"]).ended;
  assert.equal(started.code, 0, started.stderr);
  const { url, dashboardUrl } = JSON.parse(started.stdout) as { url: string; dashboardUrl: string };
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.equal(dashboardUrl, `${publicUrl}/dashboard`, "for people elsewhere");
  const where = `Commands on this machine use ${url}. On others: slipway login --url ${publicUrl}`;
  assert.ok(started.stderr.includes(where), started.stderr);
  const stranger = `Warning: SLIPWAY_PUBLIC_URL is ${publicUrl}, but from this machine something that is no platform answers`;
  assert.ok(started.stderr.includes(stranger), started.stderr);

  writeFileSync(join(folder, "main.py"), main);
  const deployed = await slipway(["deploy", "--yes", "--name", "local"]).ended;
  assert.equal(deployed.code, 0, deployed.stderr);
  const called = await slipway(["call", "local/run"]).ended;
  assert.match(called.stdout, /hello/, called.stderr);
  const copied = await slipway(["volumes", "upload", "main.py", "kept.py"]).ended;
  assert.equal(copied.code, 0, copied.stderr);
  const back = await slipway(["volumes", "download", "kept.py", "-"]).ended;
  assert.equal(back.stdout, main, back.stderr);
  assert.deepEqual(asked, ["GET /.well-known/jwks.json undefined"]);
});
