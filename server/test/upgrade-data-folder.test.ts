// A whole data folder of the version before the restructuring of drivers, settings and ownership,
// which that version has filled itself (old-folder/README.md). This version starts on it, and
// nothing is lost: people, tokens, apps with their artifacts, secrets, runs, deliveries, money, the
// audit log. All is seen from outside, by HTTP and the command line.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHmac } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { promisify } from "node:util";
import type { Client } from "pg";
import { temporaryFolder } from "./support/folder.ts";
import { startGitServer } from "./support/git-server.ts";
import type { Json } from "./support/management-api.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";
import type { Received, WebhookReceiver } from "./support/webhook-receiver.ts";
import { earlierExport, facts, oldPlatform, type OldPlatform } from "./old-folder/load.ts";
import { marked } from "./old-folder/read.ts";
import { gitAt, gitLogin, makeRepositories, type Page, type Visitor } from "./old-folder/stage.ts";
import "#test/support/leftovers.ts";

const waitMs = 120_000;
const { runs } = facts;
/** Runs, and deliveries of runs, that were under way go on. */
const underWay: ReadonlySet<string> = new Set([runs.running, runs.waiting, runs.undelivered]);
const isUnderWay = ({ id, runId }: Json): boolean => underWay.has(id) || underWay.has(runId);
/** What a use of a token, a new month or the cost of calls changes, and what is new. */
const moving = new Set([
  "pageUrl",
  "call_records_per_minute",
  "call_retention_days",
  "lastBuildStatus",
  "lastBuildReason",
  "lastBuildEndedAt",
  "latestBuildId",
  "last_used_at",
  "last_used_address",
  "month",
  "spent_cents",
  "drawn_micros",
  "waitReason",
  "used",
  "commitMessage",
  "releases",
  "commitAuthor",
  "branch",
  "autoDeployPausedAt",
  "autoDeployPausedReason",
  "liveRelease",
  "settings",
  "storage_cost_micros",
  "storage_gb_seconds",
  "total_storage_gb_seconds",
]);
/** Lists that grow, and endpoints, of which deliveries that are under way tell more. */
const growing = /\/(logs|audit-log|billing\/ledger|webhook-endpoints)\?/;

/** An answer without what may be another. */
function lasting(value: Json): Json {
  if (Array.isArray(value))
    return value.filter((one) => one === null || !isUnderWay(one)).map(lasting);
  if (typeof value !== "object" || value === null) return value;
  if (value.item !== undefined && isUnderWay(value.item)) return null;
  const kept = Object.entries(value).filter(
    ([name]) => !moving.has(name) || value.closed_at !== undefined,
  );
  return Object.fromEntries(kept.map(([name, one]) => [name, lasting(one)]));
}

type Given = { readonly token?: string; readonly cookie?: string; readonly body?: object };
type Answer = { readonly status: number; readonly body: Json };

async function ask(
  platform: PlatformProcess,
  request: string,
  { token, cookie, body }: Given,
): Promise<Answer> {
  const [method = "", path = ""] = request.split(" ");
  const headers = {
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(cookie === undefined ? {} : { cookie }),
    ...(body === undefined ? {} : { "content-type": "application/json" }),
  };
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(platform.bootstrap.baseUrl + path, { method, headers, ...content });
  const text = await response.text();
  return { status: response.status, body: text === "" ? null : JSON.parse(text) };
}

function of({ bootstrap }: PlatformProcess, path: string): string {
  return `/v2/projects/${bootstrap.projectId}/${path}`;
}

function appOf({ bootstrap }: PlatformProcess, name: string): string {
  return `apps/${bootstrap.projectId}-${name}`;
}

async function get(platform: PlatformProcess, path: string): Promise<Json> {
  const { status, body } = await platform.api("GET", of(platform, path));
  assert.equal(status, 200, `${path}: ${JSON.stringify(body)}`);
  return body;
}

/** What the version before answered is answered now. */
async function answersAsBefore(platform: PlatformProcess): Promise<void> {
  for (const [path, before] of Object.entries(facts.answers)) {
    const { body } = await platform.api("GET", path);
    const { dataDir, bootstrap } = platform;
    const now = JSON.parse(
      marked(JSON.stringify(body), { dataDir, baseUrl: bootstrap.baseUrl }),
    ) as Json;
    if (growing.test(path)) isStillThere(path, now, before);
    else if (!path.endsWith(`${runs.waiting}/result`) && !path.endsWith(`${runs.running}/result`)) {
      assert.deepEqual(lasting(now), lasting(before), path);
    }
  }
}

/** All that was listed, in its order; of endpoints only what they are. */
function isStillThere(path: string, now: Json, before: Json): void {
  const items = (list: Json): Json[] => list.items ?? list.logs;
  const shown = (one: Json): Json =>
    path.includes("endpoints") ? [one.id, one.url, one.createdAt] : one;
  const idOf = ({ id, logId }: Json): string => id ?? logId;
  const ids = new Set(items(before).map(idOf));
  const found = items(now).filter((one) => ids.has(idOf(one)));
  assert.ok(ids.size > 1, path);
  assert.deepEqual(found.map(shown), items(before).map(shown), path);
}

/**
 * Page tokens of logs and runs still work after the upgrade; those of deliveries and endpoints are
 * refused.
 */
async function goesOnFrom(platform: PlatformProcess, { path, token, next }: Page): Promise<void> {
  const { status, body } = await platform.api("GET", `${path}&nextToken=${token}`);
  if (/\/webhook-(deliveries|endpoints)\?/.test(path)) {
    assert.equal(status, 400, path);
    assert.match(String(body.message), /^nextToken does not belong to this query/);
  } else {
    assert.equal(status, 200, path);
    const found = (body.items ?? body.logs).map((one: Json) => one.id ?? one.logId);
    assert.deepEqual(found, next, path);
  }
}

/** All rows of all tables but those that say which process works on them. */
async function rowsOf(database: Client): Promise<Record<string, string[]>> {
  const { rows: tables } = await database.query<{ name: string }>(
    "select relname as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace",
  );
  const found: Record<string, string[]> = {};
  for (const { name } of tables.filter((table) => table.name !== "instances")) {
    const { rows } = await database.query<{ row: string }>(
      `select to_json(one)::text as row from ${name} one order by 1`,
    );
    found[name] = rows.map(({ row }) => row);
  }
  return found;
}

async function answersAreThoseOfBefore({ platform, database }: OldPlatform): Promise<void> {
  assert.match(
    platform.output(),
    /"migration":"0021-whose-replicas"[^]*"migration":"0022-releases"/,
  );
  await answersAsBefore(platform);
  for (const page of facts.pages) await goesOnFrom(platform, page);
  const { rows: releases } = await database.query(
    `select name, number, cause, state, end_reason as reason, ended_at = lead(promoted_at) over (order by name, number) as "atNext",
       commit_sha is not null and branch is not null and collected_at is null as "isWhole"
     from releases join apps on apps.id = app_id order by name, number`,
  );
  const live = { cause: "create", state: "live", reason: null, atNext: null, isWhole: true };
  assert.deepEqual(releases, [
    { ...live, name: "teller", number: 1 },
    {
      ...live,
      name: "web",
      number: 1,
      state: "replaced",
      reason: "A newer release took its place.",
      atNext: true,
    },
    { ...live, name: "web", number: 2, cause: "rebuild" },
  ]);
  // The app's replica ended when the platform was killed: from then on nobody pays for it.
  const away = await get(platform, "usage?from=2026-11-04&to=2026-11-21");
  assert.deepEqual(away.items, []);
}

test("once all that was under way has ended, another start changes no row", async (t) => {
  const { platform, database } = await oldPlatform(t);
  await platform.restart();
  const waits =
    "select from webhook_deliveries where state = 'pending' union all select from runs where ended_at is null";
  const lives =
    "select from replicas where stopped_at is null or (started_at is not null and not is_metered)";
  const postings = "select from billing_accounts where posting_due_at is not null";
  const isQuiet = async (): Promise<boolean> =>
    (await database.query(`${waits} union all ${lives} union all ${postings}`)).rowCount === 0;
  await until("all has ended and is counted", isQuiet, { deadlineMs: waitMs });
  assert.equal(await platform.end("SIGTERM"), 0, platform.output());
  const before = await rowsOf(database);
  const printed = platform.output().length;
  await platform.restart();
  assert.doesNotMatch(platform.output().slice(printed), /"migration"|"level":[456]0/);
  assert.equal(await platform.end("SIGTERM"), 0, platform.output());
  assert.deepEqual(await rowsOf(database), before);
});

async function peopleAndTokensGoOn({ platform }: OldPlatform, t: TestContext): Promise<void> {
  const { bootstrap } = platform;
  for (const [{ email, password, refreshToken, cookies }, role] of [
    [facts.owner, "owner"],
    [facts.member, "member"],
  ] as const) {
    const signedIn = await ask(platform, "POST /v2/auth/sign-in", { body: { email, password } });
    assert.equal(signedIn.status, 200, email);
    const renewed = await ask(platform, "POST /v2/auth/token", {
      body: { refresh_token: refreshToken },
    });
    const [session = "none"] = cookies.filter((cookie) => cookie.startsWith("slipway_session="));
    const byCookie = await ask(platform, "POST /v2/auth/token", { cookie: session });
    assert.deepEqual([renewed.status, byCookie.status], [200, 200], email);
    for (const token of [
      signedIn.body.accessToken,
      renewed.body.access_token,
      byCookie.body.access_token,
    ]) {
      const { body: me } = await ask(platform, "GET /v2/auth/session", { token });
      assert.equal(me.person.email, email);
      assert.deepEqual(me.projects, [{ id: bootstrap.projectId, role }]);
    }
  }
  await isHerOwnDevice(platform, facts.member);

  const accounts = `GET ${of(platform, "service-accounts")}`;
  for (const token of [facts.serviceAccount, bootstrap.serviceAccountToken]) {
    assert.equal((await ask(platform, accounts, { token })).status, 200);
  }
  const listed = await ask(platform, "GET /v2/operator/coupons", {
    token: bootstrap.operatorToken,
  });
  assert.deepEqual(
    listed.body.items.map(({ code }: Json) => code),
    ["TENTH", "WELCOME"],
  );
  const call = `GET /v4/${bootstrap.projectId}/web/`;
  for (const token of [facts.inference, bootstrap.inferenceToken]) {
    assert.equal((await ask(platform, call, { token })).status, 200);
  }
  assert.equal((await ask(platform, accounts, { token: facts.revokedServiceAccount })).status, 401);
  assert.equal((await ask(platform, call, { token: facts.revokedInference })).status, 401);
  const told = await slipway(t, ["whoami", "--json"], {
    SLIPWAY_URL: bootstrap.baseUrl,
    SLIPWAY_TOKEN: facts.serviceAccount,
  });
  assert.equal(JSON.parse(told.out).project.id, bootstrap.projectId);
}

/** Wrong passwords from elsewhere do not lock her out of the browser in which she has signed in. */
async function isHerOwnDevice(
  platform: PlatformProcess,
  { email, password, cookies }: Visitor,
): Promise<void> {
  const wrong = { email, password: "a wrong password" };
  for (let tries = 0; tries < 11; tries++)
    await ask(platform, "POST /v2/auth/sign-in", { body: wrong });
  const right = { email, password };
  assert.equal(
    (await ask(platform, "POST /v2/auth/sign-in", { body: right })).status,
    429,
    "elsewhere",
  );
  const [device = "none"] = cookies.filter((cookie) => cookie.startsWith("slipway_device="));
  assert.equal(
    (await ask(platform, "POST /v2/auth/sign-in", { body: right, cookie: device })).status,
    200,
  );
}

async function appsStartAndAreBuiltAgain({ platform }: OldPlatform, t: TestContext): Promise<void> {
  const answer = async (path: string, body: object = {}): Promise<Json> => {
    const [app = "", ...rest] = path.split("/");
    const response = await platform.call(app, rest.join("/"), body);
    assert.equal(response.status, 200, path);
    return await response.json();
  };
  const { result } = await answer("teller/run", { word: "again" });
  assert.deepEqual(result, { word: "again", secret: "of the project", own: "of the app" });
  assert.equal((await answer("teller/read_kept")).result, "kept since October");
  assert.deepEqual(await answer("web/a/page"), { path: "/a/page", secret: "of the project" });

  // The repositories can be had with the credential only.
  const git = await startGitServer(t, {
    at: gitAt,
    credentials: `${gitLogin.username}:${gitLogin.secret}`,
  });
  await makeRepositories(git);
  for (const [name, path] of [
    ["web", "a/page"],
    ["teller", "run"],
  ] as const) {
    const app = appOf(platform, name);
    const { id, commit } = (await get(platform, `${app}/builds`)).at(-1);
    const again = await platform.api("POST", of(platform, `${app}/builds/${id}/rebuild`));
    assert.equal(again.status, 201, JSON.stringify(again.body));
    const hasEnded = async (): Promise<Json> => {
      const build = await get(platform, `${app}/builds/${again.body.buildId}`);
      return build.endedAt === null ? null : build;
    };
    const build = await until("the build ends", hasEnded, { deadlineMs: waitMs });
    assert.deepEqual([build.status, build.commit, build.reason], ["success", commit, null]);
    assert.equal((await answer(`${name}/${path}`)).error, undefined);
    assert.equal((await get(platform, app)).liveBuildId, build.id);
  }
}

async function runsAndDeliveriesEnd({ platform, receiver }: OldPlatform): Promise<void> {
  const app = appOf(platform, "teller");
  const run = async (id: string): Promise<Json> => (await get(platform, `${app}/runs/${id}`)).item;
  for (const id of [runs.running, runs.waiting]) {
    await until("the run ends", async () => (await run(id)).endedAt !== null, {
      deadlineMs: waitMs,
    });
  }
  const { status, attempts } = await run(runs.waiting);
  assert.deepEqual([status, attempts], ["success", 1]);
  const { result } = await get(platform, `${app}/runs/${runs.waiting}/result`);
  assert.deepEqual(result, { word: "waited", secret: "of the project", own: "of the app" });
  const cut = await run(runs.running);
  assert.deepEqual([cut.status, cut.attempts], ["failure", 1]);
  assert.match(cut.reason, /^interrupted: /);

  for (const [runId, name] of [
    [runs.waiting, "waiting"],
    [runs.undelivered, "later"],
  ] as const) {
    const delivered = async (): Promise<boolean> => {
      const { items } = await get(platform, `webhook-deliveries?runId=${runId}`);
      return items.length === 1 && items[0].state === "delivered";
    };
    await until(`the delivery to ${name}`, delivered, { deadlineMs: waitMs });
    const received = onlyOne(receiver, `/${name}`);
    assert.equal(received.headers["x-request-id"], runId);
    assert.equal(received.headers["webhook-signature"], standardSignatureOf(received));
  }
  const { headers, body } = onlyOne(receiver, "/waiting");
  assert.equal(JSON.parse(body.toString()).result.word, "waited");
  const seconds = String(headers["x-cerebrium-webhook-timestamp"]);
  const signed = createHmac("sha256", facts.callerSecret)
    .update(`${runs.waiting}.${seconds}.`)
    .update(body);
  assert.equal(headers["x-cerebrium-webhook-signature"], `v1,${signed.digest("hex")}`);
}

function onlyOne({ received }: WebhookReceiver, path: string): Received {
  const [one, more] = received.filter((request) => request.path === path);
  assert.ok(one !== undefined && more === undefined, path);
  return one;
}

/** As receivers make it, by https://www.standardwebhooks.com. */
function standardSignatureOf({ headers, body }: Received): string {
  const key = Buffer.from(facts.webhookSecret.replace("whsec_", ""), "base64");
  const signed = createHmac("sha256", key).update(
    `${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`,
  );
  return `v1,${signed.update(body).digest("base64")}`;
}

async function useIsCounted({ platform }: OldPlatform): Promise<void> {
  const tenth = async (): Promise<Json> =>
    (await get(platform, "billing/coupons")).items.find(({ code }: Json) => code === "TENTH");
  const budget = async (): Promise<Json> => await get(platform, "budget");
  const before = { drawn: (await tenth()).drawn_micros, spent: (await budget()).spent_cents };
  assert.equal((await platform.call("web", "page", {})).status, 200);
  await until("the use is counted", async () => (await budget()).spent_cents > before.spent, {
    deadlineMs: waitMs,
  });
  await until("the coupon is drawn", async () => (await tenth()).drawn_micros > before.drawn, {
    deadlineMs: waitMs,
  });
  const statement = of(platform, "billing/statements/2026-10");
  assert.deepEqual((await platform.api("GET", statement)).body, facts.answers[statement]);
  const ledger = of(platform, "billing/ledger?pageSize=200");
  const ofOctober = ({ items }: Json): Json =>
    items.filter(({ month }: Json) => month === "2026-10");
  assert.ok(ofOctober(facts.answers[ledger]).length > 1);
  assert.deepEqual(
    ofOctober((await platform.api("GET", ledger)).body),
    ofOctober(facts.answers[ledger]),
  );
}

type Ran = { readonly code: number; readonly out: string };

/** The command line, in an empty home; all that it prints. */
async function slipway(
  t: TestContext,
  parameters: string[],
  environment: Record<string, string> = {},
): Promise<Ran> {
  const main = join(import.meta.dirname, "../../cli/src/main.ts");
  const env = { HOME: temporaryFolder(t, "home"), ...environment };
  return await promisify(execFile)(process.execPath, [main, ...parameters], {
    env,
    timeout: waitMs,
  }).then(
    ({ stdout, stderr }) => ({ code: 0, out: stdout + stderr }),
    ({ code, stdout, stderr }) => ({ code, out: stdout + stderr }),
  );
}

async function auditLogIsOneChain({ platform }: OldPlatform, t: TestContext): Promise<void> {
  const { baseUrl, serviceAccountToken } = platform.bootstrap;
  assert.equal(
    (await platform.api("PATCH", of(platform, "secrets"), { WORD: "after" })).status,
    200,
  );
  const headers = { authorization: `Bearer ${serviceAccountToken}` };
  const exported = await (
    await fetch(baseUrl + of(platform, "audit-log/export"), { headers })
  ).text();
  const folder = temporaryFolder(t, "auditor");
  const earlier = join(folder, "earlier.ndjson");
  const later = join(folder, "later.ndjson");
  writeFileSync(earlier, earlierExport);
  writeFileSync(later, exported);
  const keys = ["--keys", `${baseUrl}/.well-known/jwks.json`];
  const old = await slipway(t, ["audit", "verify", earlier, ...keys]);
  assert.equal(old.code, 0, old.out);
  assert.match(
    old.out,
    /^Intact: \d+ entries .*\nNumbers 1 to \d+\.\nThe signatures of the header and \d+ checkpoints? are valid\.\n$/,
  );
  const verified = await slipway(t, ["audit", "verify", later, ...keys, "--earlier", earlier]);
  assert.equal(verified.code, 0, verified.out);
  assert.match(verified.out, /It continues the earlier export/);
  const entries = (text: string): string[] =>
    text.split("\n").filter((line) => line.includes('"action":'));
  const before = entries(earlierExport);
  const now = entries(exported);
  assert.ok(before.length > 20 && now.length > before.length);
  assert.deepEqual(now.slice(0, before.length), before);
}

/**
 * One platform for all: each part looks at other things of the folder. The first one looks before
 * anything is done.
 */
test("a data folder of the version before goes on", async (t) => {
  const old = await oldPlatform(t);
  await old.platform.restart();
  const parts: readonly [string, (old: OldPlatform, t: TestContext) => Promise<void>][] = [
    [
      "lists, logs, builds, runs, secrets, money and the audit log are answered as the version before answered them",
      answersAreThoseOfBefore,
    ],
    [
      "a run that waited ends once, one that ran says why it ended, and deliveries are signed with the secrets of before",
      runsAndDeliveriesEnd,
    ],
    [
      "people sign in with their passwords, sessions and cookies go on, and tokens of all kinds are good",
      peopleAndTokensGoOn,
    ],
    [
      "what is used after the upgrade is discounted by the coupon of before, and counts for the budget",
      useIsCounted,
    ],
    [
      "apps are started from the artifacts that are there, with their secrets and what they have kept, and built again",
      appsStartAndAreBuiltAgain,
    ],
    [
      "the audit log is one chain across the upgrade, and its export of before is verified with the keys of now",
      auditLogIsOneChain,
    ],
  ];
  for (const [promise, part] of parts) await t.test(promise, (inner) => part(old, inner));
  await old.platform.end("SIGTERM");
  assert.equal(old.receiver.received.length, 2, "nothing of before is sent again");
});
