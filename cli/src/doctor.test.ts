// What `slipway doctor` reports on machines that lack something, made with a PATH and a port of the
// test's own.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";

const main = fileURLToPath(new URL("main.ts", import.meta.url));

type Found = {
  readonly name: string;
  readonly state: string;
  readonly about: string;
  readonly todo?: string;
};

/**
 * `programs`: all that the machine has, as shell scripts, but for what is in the folder `later` of
 * its PATH.
 */
async function doctor(
  t: TestContext,
  programs: Readonly<Record<string, string>>,
  env: Record<string, string>,
  later = "",
) {
  const home = mkdtempSync(join(tmpdir(), "slipway-test-cli-"));
  t.after(() => rmSync(home, { recursive: true }));
  for (const [name, script] of Object.entries(programs)) {
    writeFileSync(join(home, name), `#!/bin/sh\n${script}\n`);
    chmodSync(join(home, name), 0o755);
  }
  const given = {
    env: {
      PATH: later === "" ? home : `${home}:${later}`,
      HOME: home,
      SLIPWAY_DATA_DIR: join(home, "no/such"),
      ...env,
    },
  };
  const child = spawn(process.execPath, [main, "doctor", "--json"], given);
  let stdout = "";
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  const [code] = (await once(child, "close")) as [number];
  const found = JSON.parse(stdout) as Found[];
  const calls = existsSync(join(home, "calls"))
    ? readFileSync(join(home, "calls"), "utf8").trim().split("\n")
    : [];
  return { calls, code, of: (name: string) => found.find((one) => one.name === name) };
}

async function serve(t: TestContext, listener: RequestListener): Promise<number> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

test("an empty machine has faults and warnings, each with what to do, and the code is 1", async (t) => {
  const port = await serve(t, (_request, response) => response.end("not a platform"));
  const { code, of } = await doctor(t, {}, { SLIPWAY_PORT: String(port) });
  assert.equal(code, 1);
  for (const [name, state, about] of [
    ["git", "fault", /git is not installed/],
    ["docker", "warning", /no engine answers/],
    ["python", "warning", /no Python/],
    ["user namespaces", "warning", /not available|not on Linux/],
    ["port", "fault", new RegExp(`^${port} is taken by another program`)],
    ["platform", "warning", /not signed in/],
  ] as const) {
    assert.equal(of(name)?.state, state, name);
    assert.match(of(name)?.about ?? "", about);
  }
});

test("a port that is none is a fault that says what is allowed", async (t) => {
  for (const port of ["http", "65536", "-1", "7070.5"]) {
    const { of } = await doctor(t, {}, { SLIPWAY_PORT: port });
    assert.equal(of("port")?.state, "fault", port);
    assert.match(of("port")?.about ?? "", /must be a whole number from 0 to 65535/);
  }
});

test("an engine that answers, but does not build or run, is a fault with the engine's own reason", async (t) => {
  const cause = "failed to create endpoint x on network bridge: could not find bridge docker0";
  const oldBuild = `printf '%s\\n' '#5 ERROR: executor failed running [/bin/sh -c true]: ${cause}' '------' >&2; exit 1`;
  const newBuild = `echo 'ERROR: failed to build: failed to solve: process "/bin/sh -c true" did not complete successfully: ${cause}' >&2; exit 1`;
  const run = `echo 'docker: Error response from daemon: ${cause}.' >&2; exit 125`;
  const network = `printf '%s\\n' 'Error response from daemon: unable to insert jump to DOCKER' ' (exit status 2)' >&2; exit 1`;
  for (const [words, script, about] of [
    ["buildx build", oldBuild, `engine 27.1 cannot build an image: ${cause}`],
    ["buildx build", newBuild, `engine 27.1 cannot build an image: ${cause}`],
    [
      "network create",
      network,
      "engine 27.1 builds images, but cannot make a network: unable to insert jump to DOCKER",
    ],
    ["run --rm", run, `engine 27.1 builds images, but cannot run a container: ${cause}.`],
  ] as const) {
    const docker = `case "$*" in "${words}"*) ${script};; esac; echo 27.1`;
    const { code, of } = await doctor(t, { docker }, {});
    assert.deepEqual([code, of("docker")?.state, of("docker")?.about], [1, "fault", about]);
  }
  const { of } = await doctor(t, { docker: "echo 27.1" }, {});
  assert.equal(of("docker")?.about, "engine 27.1 builds an image and runs a container");
});

test("what doctor has made with the engine is removed, and the base image if it was not there", async (t) => {
  const docker = `echo "$*" >>"$HOME/calls"; case "$*" in "image inspect"*) exit 1;; esac; echo 27.1`;
  const { calls } = await doctor(t, { docker, cat: "exec /bin/cat" }, {});
  const [, , , built = "", connected = "", ran = "", ...removed] = calls;
  const [, name = ""] = /^buildx build --load .*--tag (slipway-doctor-\w+) -$/.exec(built) ?? [];
  assert.deepEqual(
    [connected, ran, ...removed],
    [
      `network create ${name}`,
      `run --rm --network ${name} ${name} true`,
      `network rm ${name}`,
      `image rm --force ${name}`,
      "image rm debian:bookworm-slim",
    ],
  );
});

test("without a client that can build, what to install is said, and the engine is not blamed", async (t) => {
  const docker = `case "$1" in buildx) exit 1;; --version) echo Docker version 28.2.2, build x;; *) echo 27.1;; esac`;
  const { code, of } = await doctor(t, { docker }, {});
  const { state, about, todo } = of("docker") ?? {};
  assert.deepEqual([code, state], [1, "fault"]);
  assert.match(
    about ?? "",
    /^engine 27\.1 answers, but \S+\/docker cannot build images without its plugin buildx$/,
  );
  assert.match(
    todo ?? "",
    /^Install the plugin \(package docker-buildx or docker-buildx-plugin\)\./,
  );
});

test("a client that cannot build is passed over for one that can, as the platform does", async (t) => {
  const old = mkdtempSync(join(tmpdir(), "slipway-test-cli-"));
  t.after(() => rmSync(old, { recursive: true }));
  const script =
    '#!/bin/sh\ncase "$1" in buildx) exit 1;; --version) echo Docker version 20.10.24;; *) echo 20.10;; esac\n';
  writeFileSync(join(old, "docker"), script, { mode: 0o755 });
  const docker =
    'case "$1" in --version) echo Docker version 28.2.2;; version) echo 20.10;; *) exit 1;; esac';
  const { of } = await doctor(t, { docker }, {}, old);
  assert.equal(of("docker")?.about, "engine 20.10 builds an image and runs a container");
});

test("a machine that has all is fine; clocks that differ are a fault", async (t) => {
  let laterMs = 0;
  const port = await serve(t, (_request, response) => {
    response.setHeader("date", new Date(Date.now() + laterMs).toUTCString());
    response.end(JSON.stringify({ info: { title: "Slipway management API" } }));
  });
  const programs = {
    git: "echo git version 2.39.5",
    docker: "echo 27.1",
    unshare: "exit 0",
    "python3.12": "echo 1",
    "python3.10": 'case "$*" in *ensurepip*) exit 1;; esac; echo 1',
  };
  const env = { SLIPWAY_PORT: String(port), SLIPWAY_URL: `http://127.0.0.1:${port}` };
  const fine = await doctor(t, programs, env);
  for (const name of ["command line", "git", "docker", "user namespaces", "port", "platform"]) {
    assert.equal(fine.of(name)?.state, "ok", `${name}: ${fine.of(name)?.about}`);
  }
  assert.match(fine.of("python")?.about ?? "", /^Python 3\.10, 3\.12; without venv: python3\.10$/);
  laterMs = 3_600_000;
  const skewed = await doctor(t, programs, env);
  assert.deepEqual([skewed.code, skewed.of("platform")?.state], [1, "fault"]);
  assert.match(skewed.of("platform")?.about ?? "", /this machine's clock is 3\d{3} s behind it/);
});

test("a public URL that does not lead to the platform here is a warning, and one that is not set is said", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "slipway-test-cli-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const answer: RequestListener = (_request, response) =>
    void response.end('{"keys":[{"kid":"a"}]}');
  const localUrl = `http://127.0.0.1:${await serve(t, answer)}`;
  const other = `http://127.0.0.1:${await serve(t, (_request, response) => void response.end("[]"))}`;
  const found = async (urls?: object) => {
    if (urls !== undefined) writeFileSync(join(folder, "bootstrap.json"), JSON.stringify(urls));
    const { state, about } =
      (await doctor(t, {}, { SLIPWAY_DATA_DIR: folder })).of("public URL") ?? {};
    return [state, about];
  };
  assert.deepEqual(await found(), ["ok", "not looked at: no platform was set up here"]);
  const unset = `SLIPWAY_PUBLIC_URL is not set: links lead to ${localUrl}`;
  assert.deepEqual(await found({ baseUrl: localUrl, localUrl }), ["ok", unset]);
  const wrong = `SLIPWAY_PUBLIC_URL is ${other}, but from this machine something that is no platform answers there`;
  assert.deepEqual(await found({ baseUrl: other, localUrl }), ["warning", wrong]);
});

test("the database of the platform here is shown with what grows in it and the settings against that", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "slipway-test-cli-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const hour = 3_600_000;
  const tables = [
    { name: "calls", bytes: 900e6 },
    { name: "app_logs", bytes: 50e6 },
    { name: "usage_slices", bytes: 6e6 },
    { name: "audit_log", bytes: 4e6 },
  ];
  let answer: object = {};
  const about = async (): Promise<string> => (await doctor(t, {}, env)).of("database")?.about ?? "";
  const port = await serve(t, (request, response) => {
    const isAllowed =
      request.headers.authorization === "Bearer op" && request.url === "/v2/operator/platform";
    response.statusCode = isAllowed ? 200 : 401;
    response.end(JSON.stringify(answer));
  });
  const env = { SLIPWAY_DATA_DIR: folder };
  assert.equal(await about(), "not looked at: no platform was set up here");
  const write = (operatorToken: string): void =>
    writeFileSync(
      join(folder, "bootstrap.json"),
      JSON.stringify({ baseUrl: `http://127.0.0.1:${port}`, operatorToken }),
    );
  write("op");
  assert.equal(await about(), "not known: the platform is of an older version");
  answer = {
    database: {
      bytes: 1e9,
      tables,
      since: new Date(Date.now() - 12.5 * hour).toISOString(),
      bytesThen: 500e6,
    },
  };
  const { of } = await doctor(t, {}, env);
  assert.match(
    of("database")?.about ?? "",
    /^1\.0 GB, records of calls 900\.0 MB, logs of apps 50\.0 MB, usage_slices 6\.0 MB, growing by 9[56]\d\.\d MB a day since the platform was started \(12 h ago\)$/,
  );
  assert.equal(
    of("database")?.todo,
    "To keep it smaller: SLIPWAY_CALL_RETENTION_DAYS, SLIPWAY_CALL_RECORDS_PER_MINUTE, SLIPWAY_LOG_RETENTION_DAYS (docs/settings.md).",
  );
  answer = {
    database: { bytes: 1e6, tables: [], since: new Date().toISOString(), bytesThen: 9e5 },
  };
  assert.match(
    await about(),
    /^1\.0 MB, growth not known yet: the platform was started less than an hour ago$/,
  );
  answer = {
    database: {
      bytes: 1e6,
      tables: [],
      since: new Date(Date.now() - 72 * hour).toISOString(),
      bytesThen: 2e6,
    },
  };
  assert.match(await about(), /^1\.0 MB, not grown since the platform was started \(3 d ago\)$/);
  write("old");
  assert.equal(await about(), "not known: the operatorToken in bootstrap.json is no longer valid");
});
