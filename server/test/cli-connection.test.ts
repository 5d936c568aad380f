// The command line against a real management API: whose token goes where, how it is renewed, what
// is said when a sign-in has ended, and what strangers that answer in the place of a platform can
// do.
import assert from "node:assert/strict";
import { execFile, spawn, type ExecFileException } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { createProject } from "#accounts/projects.ts";
import { makePerson } from "./support/person.ts";
import { temporaryFolder } from "./support/folder.ts";
import {
  startManagementApi,
  testBy,
  type ApiUnderTest,
  type Json,
} from "./support/management-api.ts";
import { until } from "./support/until.ts";

const main = join(import.meta.dirname, "../../cli/src/main.ts");
const terminal = join(import.meta.dirname, "support/on-terminal.py");
const password = "a password for tests";

type Ended = { readonly code: number; readonly stdout: string; readonly stderr: string };

/** The exit code; -1: the command had none. */
function codeOf(error: ExecFileException | null): number {
  if (error === null) return 0;
  return typeof error.code === "number" ? error.code : -1;
}

class User {
  readonly home: string;

  constructor(t: TestContext) {
    this.home = temporaryFolder(t, "home");
  }

  /** Runs a command in this home. */
  slipway(words: readonly string[], environment: Record<string, string> = {}): Promise<Ended> {
    const options = {
      env: { PATH: process.env["PATH"], HOME: this.home, ...environment },
      timeout: 60_000,
    };
    return new Promise((resolve) => {
      execFile(process.execPath, [main, ...words], options, (error, stdout, stderr) => {
        resolve({ code: codeOf(error), stdout, stderr });
      });
    });
  }

  get file(): string {
    return join(this.home, ".slipway/config.json");
  }

  stored(): Json {
    return JSON.parse(readFileSync(this.file, "utf8"));
  }

  /** As `slipway login` leaves it. */
  store(url: string, signIn: object): void {
    mkdirSync(dirname(this.file), { recursive: true });
    const full = {
      email: "ada@example.org",
      project: null,
      accessToken: "",
      refreshToken: "",
      ...signIn,
    };
    writeFileSync(this.file, JSON.stringify({ current: url, platforms: { [url]: full } }));
  }
}

/** Somebody with a project, signed in. */
async function signIn(
  api: ApiUnderTest,
): Promise<{ accessToken: string; refreshToken: string; projectId: string }> {
  const email = `${randomUUID()}@example.org`;
  const ownerId = await makePerson(api.db, { email, name: "Ada", password });
  const projectId = await createProject(api.db, { name: "mine", ownerId, by: testBy });
  const { status, body } = await api.call("POST", "/v2/auth/sign-in", {
    token: null,
    body: { email, password },
  });
  assert.equal(status, 200);
  return { ...body, projectId };
}

/** Something that answers in the place of a platform. */
async function stranger(t: TestContext, answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** `slipway login` on a terminal; `decide` gets the code that it shows. */
async function login(
  user: User,
  url: string,
  decide: (code: string) => Promise<void>,
): Promise<Ended> {
  const words = [terminal, process.execPath, main, "login", "--url", url];
  const environment = { PATH: process.env["PATH"], HOME: user.home };
  const child = spawn("python3", words, { env: environment, stdio: ["ignore", "pipe", "pipe"] });
  let stdout = "";
  child.stdout.on("data", (chunk: Buffer) => (stdout += chunk.toString()));
  const ended = once(child, "close");
  const shown = (): string | undefined => /code=([A-Z]{4}-[A-Z]{4})/.exec(stdout)?.[1];
  await decide(await until("a code is shown", shown, { deadlineMs: 60_000 }));
  const [code] = (await ended) as [number];
  return { code, stdout, stderr: "" };
}

/** A token that has ended, as its own claims say. */
function endedToken(): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
  return `${part({ alg: "RS256" })}.${part({ exp: 1_000_000_000 })}.x`;
}

test("an access token that has ended is renewed, kept, and the command goes on", async (t) => {
  const api = await startManagementApi(t);
  const user = new User(t);
  const { refreshToken, projectId } = await signIn(api);
  for (const accessToken of [endedToken(), "not a token at all"]) {
    user.store(api.baseUrl, { accessToken, refreshToken });
    const { code, stdout, stderr } = await user.slipway(["projects", "--json"]);
    assert.deepEqual([code, stderr], [0, ""]);
    assert.deepEqual(JSON.parse(stdout), [{ id: projectId, name: "mine" }]);
    assert.notEqual(user.stored().platforms[api.baseUrl].accessToken, accessToken);
  }
});

test("a sign-in that has ended is forgotten, and the person is told to sign in again", async (t) => {
  const api = await startManagementApi(t);
  const user = new User(t);
  const { accessToken, refreshToken } = await signIn(api);
  assert.equal(
    (
      await api.call("POST", "/v2/auth/sign-out", {
        token: null,
        body: { refresh_token: refreshToken },
      })
    ).status,
    200,
  );
  user.store(api.baseUrl, { accessToken: endedToken(), refreshToken });
  const first = await user.slipway(["whoami"]);
  assert.equal(first.code, 3);
  assert.match(
    first.stderr,
    /^The session of ada@example\.org at .* has ended\. Sign in again: slipway login/,
  );
  assert.deepEqual(user.stored(), { current: null, platforms: {} });
  assert.ok(!(first.stderr + first.stdout).includes(accessToken));
});

test("logout ends the session on the platform; without the platform the tokens go at least from here", async (t) => {
  const api = await startManagementApi(t);
  const user = new User(t);
  const { accessToken, refreshToken } = await signIn(api);
  user.store(api.baseUrl, { accessToken, refreshToken });
  assert.equal((await user.slipway(["logout"])).code, 0);
  const body = { refresh_token: refreshToken };
  assert.equal((await api.call("POST", "/v2/auth/token", { token: null, body })).status, 401);
  user.store("http://127.0.0.1:2", { accessToken, refreshToken });
  const { code, stderr } = await user.slipway(["logout"]);
  assert.equal(code, 1);
  assert.match(stderr, /removed from this machine, but the platform was not notified/);
  assert.deepEqual(user.stored().platforms, {});
});

test("after a logout no command acts on another platform until it is named", async (t) => {
  const one = await startManagementApi(t);
  const other = await startManagementApi(t);
  const user = new User(t);
  user.store(other.baseUrl, await signIn(other));
  const { platforms } = user.stored();
  user.store(one.baseUrl, await signIn(one));
  const both = { ...user.stored(), platforms: { ...platforms, ...user.stored().platforms } };
  writeFileSync(user.file, JSON.stringify(both));
  const out = await user.slipway(["logout"]);
  assert.ok(
    out.stderr.includes(`You stay signed in at ${other.baseUrl}: commands use it when you name it`),
    out.stderr,
  );
  const silent = await user.slipway(["apps"]);
  assert.equal(silent.code, 3);
  assert.ok(
    silent.stderr.includes(`You are signed in at ${other.baseUrl}: name it with --url`),
    silent.stderr,
  );
  assert.equal((await user.slipway(["apps", "--url", other.baseUrl])).code, 0);
});

test("SLIPWAY_TOKEN wins over a sign-in; a stored token goes to its own URL and to no other", async (t) => {
  const api = await startManagementApi(t);
  const user = new User(t);
  const seen: (string | undefined)[] = [];
  const other = await stranger(t, (request, response) => {
    seen.push(request.headers.authorization);
    response.end("[]");
  });
  const { accessToken, refreshToken } = await signIn(api);
  user.store(api.baseUrl, { accessToken, refreshToken });
  const withToken = await user.slipway(["projects", "--json"], { SLIPWAY_TOKEN: api.token });
  assert.deepEqual(JSON.parse(withToken.stdout), [{ id: api.projectId, name: "first" }]);
  const elsewhere = await user.slipway(["projects"], { SLIPWAY_URL: other });
  assert.match(elsewhere.stderr, new RegExp(`^You are not signed in at ${other}`));
  assert.deepEqual(seen, []);
});

test("login says that it was refused in the browser, and keeps nothing; approved, it keeps the first project by name", async (t) => {
  const api = await startManagementApi(t);
  const user = new User(t);
  const { accessToken, projectId } = await signIn(api);
  await api.call("POST", "/v2/projects", { token: accessToken, body: { name: "zebra" } });
  const decide =
    (decision: string) =>
    async (code: string): Promise<void> => {
      const path = `/v2/auth/device-logins/${code}`;
      const { status } = await api.call("POST", path, { token: accessToken, body: { decision } });
      assert.equal(status, 200);
    };
  const refused = await login(user, api.baseUrl, decide("deny"));
  assert.equal(refused.code, 1);
  assert.match(refused.stdout, /The sign-in was denied in the browser\./);
  assert.equal(existsSync(user.file), false);
  const approved = await login(user, `${api.baseUrl}/`, decide("approve"));
  assert.equal(approved.code, 0, approved.stdout);
  assert.match(approved.stdout, /To select another one: slipway projects use/);
  assert.equal(user.stored().platforms[api.baseUrl].project, projectId);
  assert.ok(!approved.stdout.includes(user.stored().platforms[api.baseUrl].refreshToken));
});

test("whose default project is deleted has none, and goes on with the only one that is left", async (t) => {
  const api = await startManagementApi(t);
  const user = new User(t);
  const { projectId: project, ...tokens } = await signIn(api);
  user.store(api.baseUrl, { ...tokens, project });
  assert.match(
    (await user.slipway(["projects", "create", "second"])).stderr,
    /^Created the project second \(p-/,
  );
  assert.equal((await user.slipway(["projects", "delete", project, "--yes"])).code, 0);
  assert.equal(user.stored().platforms[api.baseUrl].project, null);
  assert.equal((await user.slipway(["apps"])).code, 0);
});

test("a token is not sent to where a redirect leads, and what answers strangely is said to be no Slipway", async (t) => {
  const user = new User(t);
  const seen: string[] = [];
  const thief = await stranger(t, (request, response) => {
    seen.push(String(request.headers.authorization));
    response.end("[]");
  });
  const redirecting = await stranger(t, (_request, response) =>
    response.writeHead(307, { location: `${thief}/x` }).end(),
  );
  const given = { SLIPWAY_TOKEN: "a.b.c" };
  assert.equal((await user.slipway(["projects"], { ...given, SLIPWAY_URL: redirecting })).code, 1);
  assert.deepEqual(seen, []);
  for (const [answer, said] of [
    ["<html>", /is not a Slipway platform: its response is not JSON/],
    ["{}", /Unexpected response from the platform: it is not a list/],
    ['[{"id":1}]', /Unexpected response from the platform: its field id is not a string/],
  ] as const) {
    const url = await stranger(t, (_request, response) => response.end(answer));
    const { code, stderr } = await user.slipway(["projects"], { ...given, SLIPWAY_URL: url });
    assert.equal(code, 1);
    assert.match(stderr, said);
    assert.doesNotMatch(stderr, / at .*\.ts:/, "no stack is shown");
  }
});

test("names and messages of strangers cannot steer the terminal", async (t) => {
  const user = new User(t);
  const evil = "evil\u001b[2J\u0007\u202e\r\nname";
  const url = await stranger(t, (request, response) => {
    const isList = request.url === "/v2/projects";
    response
      .writeHead(isList ? 200 : 403)
      .end(JSON.stringify(isList ? [{ id: "p-1", name: evil }] : { message: evil }));
  });
  const environment = { SLIPWAY_TOKEN: "a.b.c", SLIPWAY_URL: url };
  const shown = [
    await user.slipway(["projects"], environment),
    await user.slipway(["members"], environment),
  ];
  for (const { stdout, stderr } of shown) {
    assert.match(stdout + stderr, /evil\[2J ?name/);
    assert.doesNotMatch(stdout + stderr, /[\u001b\u0007\u202e\r]/);
  }
});

test("a project is found by id or name, and one of several of a name has to be named by its id", async (t) => {
  const api = await startManagementApi(t);
  const user = new User(t);
  const { accessToken, refreshToken, projectId } = await signIn(api);
  const make = async (name: string): Promise<string> => {
    const { status, body } = await api.call("POST", "/v2/projects", {
      token: accessToken,
      body: { name },
    });
    assert.equal(status, 201);
    return body.id;
  };
  const second = await make("second");
  await make("twin");
  await make("twin");
  user.store(api.baseUrl, { accessToken, refreshToken });
  const unnamed = await user.slipway(["members"]);
  assert.match(
    unnamed.stderr,
    /^You are a member of several projects: mine, second, twin, twin\. Use --project/,
  );
  assert.match(
    (await user.slipway(["members", "--project", "twin"])).stderr,
    /^Several projects are named "twin"/,
  );
  assert.match(
    (await user.slipway(["members", "--project", "third"])).stderr,
    /^You have no project "third"/,
  );
  assert.equal((await user.slipway(["members", "--project", "mine"])).code, 0);
  assert.equal((await user.slipway(["members"], { SLIPWAY_PROJECT: projectId })).code, 0);
  assert.equal((await user.slipway(["projects", "use", "second"])).code, 0);
  assert.equal(user.stored().platforms[api.baseUrl].project, second);
  assert.match(
    (await user.slipway(["projects"])).stdout,
    new RegExp(`^\\* +${second} +second$`, "m"),
  );
});
