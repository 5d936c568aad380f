// Roll-outs from outside: a real platform, a real git host, real apps. Each app answers with the
// version of its code, so that every answer tells which release gave it.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { insertMember } from "#accounts/project-store.ts";
import { testDatabase } from "./support/database.ts";
import type { ProjectId } from "#lib/ids.ts";
import { deploy } from "./support/examples.ts";
import { startGitServer, type GitServer } from "./support/git-server.ts";
import type { Json } from "./support/management-api.ts";
import { startMailReceiver, type MailReceiver } from "./support/mail-receiver.ts";
import { makePerson } from "./support/person.ts";
import { startPlatform, type PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

const waitMs = 60_000;
const owner = "owner@example.org";

function main(version: string, body = ""): string {
  return `
import time

def run(seconds: float = 0.0):
${body}    time.sleep(seconds)
    return "${version}"

def stream(parts: int):
    for part in range(parts):
        yield "${version} "
        time.sleep(0.1)
`;
}

/** One app with its repository. */
class App {
  readonly #platform: PlatformProcess;
  readonly #git: GitServer;
  readonly name: string;
  readonly path: string;

  constructor(platform: PlatformProcess, git: GitServer, name: string) {
    this.#platform = platform;
    this.#git = git;
    this.name = name;
    const { projectId } = platform.bootstrap;
    this.path = `/v2/projects/${projectId}/apps/${projectId}-${name}`;
  }

  /** Deploys the first version. */
  async create(settings: Readonly<Record<string, unknown>>): Promise<void> {
    await this.#git.createRepo("team", this.name, { "main.py": main("one") });
    const wish = {
      name: this.name,
      gitRepo: `team/${this.name}`,
      maxReplicaCount: 3,
      cooldownPeriodSeconds: 60,
    };
    const { status, log } = await deploy(this.#platform, { ...wish, ...settings });
    assert.equal(status, "success", log);
  }

  /** Pushes a version and builds it; resolves when its roll-out has begun, or it is live. */
  async push(content: string): Promise<void> {
    await this.#git.push("team", this.name, { "main.py": content });
    const { body } = await this.api("POST", "/builds", {});
    await until(
      "the build ends",
      async () => (await this.api("GET", `/builds/${body.buildId}`)).body.endedAt !== null,
      {
        deadlineMs: waitMs,
      },
    );
    const { status, reason } = (await this.api("GET", `/builds/${body.buildId}`)).body;
    assert.deepEqual({ status, reason }, { status: "success", reason: null });
  }

  api(method: string, path: string, body?: unknown): Promise<{ status: number; body: Json }> {
    return this.#platform.api(method, `${this.path}${path}`, body);
  }

  async rollOut(): Promise<Json> {
    return (await this.api("GET", "/rollout")).body;
  }

  call(body: unknown = {}, endpoint = "run"): Promise<Response> {
    return this.#platform.call(this.name, endpoint, body);
  }

  async version(): Promise<string> {
    const response = await this.call();
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return JSON.parse(text).result;
  }

  async reach(what: string, holds: (rollOut: Json) => boolean): Promise<Json> {
    return await until(
      what,
      async () => {
        const rollOut = await this.rollOut();
        return holds(rollOut) && rollOut;
      },
      { deadlineMs: waitMs },
    );
  }
}

/**
 * Calls the app until `end` is called, which resolves with what was answered, by version, and with
 * what failed.
 */
function callers(
  app: App,
  count: number,
): { seen: Map<string, number>; failures: string[]; end(): Promise<void> } {
  const seen = new Map<string, number>();
  const failures: string[] = [];
  let isOver = false;
  const caller = async (): Promise<void> => {
    while (!isOver) {
      const response = await app.call({ seconds: 0.01 });
      const text = await response.text();
      if (response.status !== 200) failures.push(`${response.status} ${text}`);
      else {
        const { result } = JSON.parse(text);
        seen.set(result, (seen.get(result) ?? 0) + 1);
      }
    }
  };
  const all = Array.from({ length: count }, caller);
  const end = async (): Promise<void> => {
    isOver = true;
    await Promise.all(all);
  };
  return { seen, failures, end };
}

/** The events of a followed roll-out, until it ends. */
async function follow(platform: PlatformProcess, app: App): Promise<Json[]> {
  const { baseUrl, serviceAccountToken } = platform.bootstrap;
  const headers = { authorization: `Bearer ${serviceAccountToken}`, accept: "text/event-stream" };
  const response = await fetch(`${baseUrl}${app.path}/rollout`, { headers });
  const text = await response.text();
  assert.match(text, /\nevent: end\ndata: \{.*\n\n$/);
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, data = ""]) => JSON.parse(data));
}

async function inSteps(platform: PlatformProcess, app: App): Promise<void> {
  await app.create({ rollOutDurationSeconds: 5 });
  assert.equal((await app.api("GET", "/rollout")).status, 404);
  const load = callers(app, 3);
  // It says "one" in parts for longer than the roll-out takes.
  await app.push(main("two"));
  const streamed = app.call({ parts: 120 }, "stream").then((response) => response.text());
  const events = await follow(platform, app);
  assert.deepEqual([...new Set(events.map(({ share }) => share))], [20, 40, 60, 80, 100]);
  const last = events.at(-1) as Json;
  assert.deepEqual(
    [last.state, last.release, last.fromRelease, last.reason],
    ["finished", 2, 1, null],
  );
  assert.ok(last.calls.release.calls > 0 && last.calls.fromRelease.calls > 0);
  await until("all calls are the new release's", async () => {
    const versions = await Promise.all(Array.from({ length: 10 }, () => app.version()));
    return versions.every((version) => version === "two");
  });
  await load.end();
  assert.deepEqual(load.failures, []);
  assert.ok(
    (load.seen.get("one") ?? 0) > 0 && (load.seen.get("two") ?? 0) > 0,
    JSON.stringify([...load.seen]),
  );
  const words = new Set(
    (await streamed).split(/[^a-z]+/).filter((word) => word === "one" || word === "two"),
  );
  assert.equal(words.size, 1, "a stream ends on the release where it began");
}

async function steered(app: App): Promise<void> {
  await app.create({ rollOutDurationSeconds: 21_600 });
  await app.push(main("two"));
  assert.deepEqual((await app.api("POST", "/rollout/resume")).status, 409);
  const refused = await app.api("PATCH", "", { compute: "ADA_L4" });
  assert.deepEqual(
    [refused.status, /requests compute ADA_L4.*has only CPU/.test(refused.body.message)],
    [400, true],
  );
  const paused = (await app.api("POST", "/rollout/pause")).body;
  assert.deepEqual([paused.state, paused.share, paused.nextStepAt], ["paused", 20, null]);
  assert.equal((await app.api("POST", "/rollout/pause")).status, 409);
  const resumed = (await app.api("POST", "/rollout/resume")).body;
  assert.deepEqual([resumed.state, resumed.share], ["running", 20]);
  const cancelled = (await app.api("POST", "/rollout/cancel")).body;
  assert.deepEqual(
    [cancelled.state, cancelled.reason],
    ["taken_back", "Its roll-out was rolled back."],
  );
  assert.equal((await app.api("POST", "/rollout/finish")).status, 409);
  await until("all calls are the old release's again", async () => {
    const versions = await Promise.all(Array.from({ length: 10 }, () => app.version()));
    return versions.every((version) => version === "one");
  });
  await app.push(main("three"));
  assert.equal((await app.rollOut()).release, 3);
  const [one, other] = await Promise.all([
    app.api("POST", "/rollout/finish"),
    app.api("POST", "/rollout/cancel"),
  ]);
  assert.deepEqual([one.status, other.status].toSorted(), [200, 409], "of two at once one wins");
  if (one.status === 409) {
    await app.push(main("three"));
    assert.equal((await app.api("POST", "/rollout/finish")).status, 200);
  }
  await until("all calls are the new release's", async () => (await app.version()) === "three");
}

async function anotherDeploy(app: App): Promise<void> {
  await app.push(main("four"));
  await app.push(main("five"));
  const rollOut = await app.rollOut();
  assert.deepEqual([rollOut.state, rollOut.share], ["running", 20]);
  const [, four] = (await app.api("GET", "/releases")).body.items;
  assert.deepEqual(
    [four.state, four.endReason],
    ["taken_back", "A newer release took its place before it had all calls."],
  );
  const load = callers(app, 2);
  await until("both releases answer", () => load.seen.has("three") && load.seen.has("five"), {
    deadlineMs: waitMs,
  });
  await load.end();
  assert.deepEqual(load.failures, []);
  assert.equal((await app.api("POST", "/stop", {})).status, 200);
  assert.equal((await app.rollOut()).state, "paused", "a stop pauses a roll-out");
  const refused = await app.api("POST", "/rollout/resume");
  assert.deepEqual([refused.status, /start it first/.test(refused.body.message)], [409, true]);
  assert.equal((await app.api("POST", "/start", {})).status, 200);
  assert.equal((await app.api("POST", "/rollout/resume")).body.state, "running");
}

async function rolledBack(app: App): Promise<void> {
  const { release, fromRelease } = await app.rollOut();
  const releases = async (): Promise<Json[]> => (await app.api("GET", "/releases")).body.items;
  const traffic = (await releases()).map(({ number, trafficPercent }) => [number, trafficPercent]);
  assert.deepEqual(
    traffic.filter(([, percent]) => percent > 0),
    [
      [release, 20],
      [fromRelease, 80],
    ],
  );
  const { body: back } = await app.api("POST", "/rollback", {});
  assert.deepEqual([back.number, back.trafficPercent], [fromRelease, 100]);
  const { state, reason } = await app.rollOut();
  assert.deepEqual(
    { state, reason },
    {
      state: "taken_back",
      reason: `The app was rolled back from v${release} to v${fromRelease}.`,
    },
  );
}

async function worse(app: App, mails: MailReceiver): Promise<void> {
  await app.push(main("six", '    raise ValueError("broken")\n'));
  const broken = (await app.rollOut()).release;
  let isOver = false;
  const load = async (): Promise<void> => {
    while (!isOver) await app.call({ seconds: 0.01 }).then((response) => response.text());
  };
  const all = [load(), load()];
  const rollOut = await app.reach("it is taken back", ({ state }) => state === "taken_back");
  isOver = true;
  await Promise.all(all);
  assert.match(
    rollOut.reason,
    /^Its roll-out was rolled back at 20 % of the calls, because it is worse than the release before: \d+ of its \d+ calls failed, but only 0 of \d+ of the release before\.$/,
  );
  const { body: page } = await app.api("GET", "/logs?pageSize=1000&search=rolled%20back");
  assert.match(
    JSON.stringify(page),
    new RegExp(`Release v${broken}: Its roll-out was rolled back`),
  );
  const { text } = await mails.next(owner);
  assert.match(text, new RegExp(`Subject: Slipway: release v${broken} of steered was rolled back`));
  assert.ok(text.includes(rollOut.reason), text);
  await until("all calls are the old release's again", async () => {
    const versions = await Promise.all(Array.from({ length: 10 }, () => app.version()));
    return versions.every((version) => version === "three");
  });
}

async function killed(platform: PlatformProcess, app: App): Promise<void> {
  await app.push(main("seven"));
  const before = await app.rollOut();
  await until("both releases answer", async () => {
    const versions = new Set(await Promise.all(Array.from({ length: 20 }, () => app.version())));
    return versions.has("three") && versions.has("seven");
  });
  await platform.end("SIGKILL");
  await platform.restart();
  const after = await app.rollOut();
  for (const name of ["state", "release", "share", "startedAt", "nextStepAt"])
    assert.equal(after[name], before[name]);
  await until("both releases still answer", async () => {
    const versions = new Set(await Promise.all(Array.from({ length: 20 }, () => app.version())));
    return versions.has("three") && versions.has("seven");
  });
  assert.equal((await app.api("POST", "/rollout/finish")).body.state, "finished");
  await until("all calls are the new release's", async () => {
    const versions = await Promise.all(Array.from({ length: 10 }, () => app.version()));
    return versions.every((version) => version === "seven");
  });
}

test("calls move from one release to the next", async (t: TestContext) => {
  const git = await startGitServer(t);
  const mails = await startMailReceiver(t);
  const { db, url } = await testDatabase(t);
  const platform = await startPlatform(t, {
    SLIPWAY_DATABASE_URL: url.reveal(),
    SLIPWAY_GIT_URL: git.urlTemplate,
    SLIPWAY_SMTP_URL: mails.url,
    SLIPWAY_MAIL_FROM: "slipway@example.org",
  });
  const projectId = platform.bootstrap.projectId as ProjectId;
  const personId = await makePerson(db, { email: owner, name: "Owner" });
  await insertMember(db, { project_id: projectId, person_id: personId, role: "owner" });
  const app = new App(platform, git, "steered");
  await t.test("in five steps, without a failed call, and a stream ends where it began", () =>
    inSteps(platform, new App(platform, git, "steps")),
  );
  await t.test("paused, resumed, taken back and finished by hand", () => steered(app));
  await t.test("another deploy takes the place of a roll-out, and a stop pauses it", () =>
    anotherDeploy(app),
  );
  await t.test("back by a rollback to the release that is live still", () => rolledBack(app));
  await t.test(
    "back by themselves when the new release is clearly worse, with the reason, which owners get by mail",
    () => worse(app, mails),
  );
  await t.test("on after the platform was killed", () => killed(platform, app));
});
