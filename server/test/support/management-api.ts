// The management API on a real socket and a real database, with everything behind it but the work on builds: what the
// API answers is tested here, what becomes of a build elsewhere.
import { randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import type { TestContext } from "node:test";
import { type TokenKind } from "#accounts/caller.ts";
import { SigningKeys } from "#accounts/keys.ts";
import type { Role } from "#accounts/permissions.ts";
import { createPerson, createProject } from "#accounts/projects.ts";
import { KeyDesk } from "#accounts/key-desk.ts";
import { TokenCheck } from "#accounts/token-check.ts";
import { TokenDesk } from "#accounts/token-desk.ts";
import { TokenDoor } from "#accounts/token-door.ts";
import { TokenUses } from "#accounts/token-uses.ts";
import { issueToken, type TokenWish } from "#accounts/tokens.ts";
import { createApi } from "#api/server.ts";
import { useCases, type UseCases } from "#apps/use-cases.ts";
import { platformActor, type By } from "#audit/actor.ts";
import { AuditChain } from "#audit/audit-chain.ts";
import { AuditLog } from "#audit/audit-log.ts";
import { AuditExport } from "#audit/export.ts";
import { ForwardingDesk } from "#audit/forwarding-desk.ts";
import { BudgetDesk } from "#billing/budget-desk.ts";
import { CouponDesk } from "#billing/coupon-desk.ts";
import { StatementDesk } from "#billing/statements.ts";
import { UsageDesk } from "#billing/usage-desk.ts";
import { PlanDesk } from "#billing/plan-desk.ts";
import { plansOfNoFile, type Plans } from "#billing/plan.ts";
import { rebuild, receiveBuild, requestCancel } from "#deploy/receive.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { Sealer } from "#lib/seal.ts";
import { Secret } from "#lib/secret.ts";
import { AppLogs } from "#logs/app-log.ts";
import { BuildLogs } from "#logs/build-log.ts";
import { RunDesk, type RunDeskOptions } from "#runs/run-desk.ts";
import { InvitationDesk } from "#people/invitations.ts";
import type { Mail } from "#people/mailer.ts";
import { MemberDesk } from "#people/members.ts";
import { plainSettings } from "#people/people-settings.ts";
import { openPeopleArea, type People, type PeopleOptions } from "#people/people.ts";
import type { Db } from "#store/database.ts";
import { Notifications } from "#store/notify.ts";
import { WebhookDesk } from "#webhooks/desk.ts";
import { SecretDesk } from "#webhooks/secret-desk.ts";
import "./checked-answers.ts";
import { admittingDesk } from "../../src/platform-plans.ts";
import { testDatabase } from "./database.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into answers of many shapes, after checking them.
export type Json = any;

export type ApiAnswer = {
  readonly status: number;
  readonly headers: Headers;
  /** Parsed when it is JSON, else the text. */
  readonly body: Json;
};

export type ApiUnderTest = {
  readonly db: Db;
  readonly baseUrl: string;
  readonly projectId: ProjectId;
  /** The owner's service account. */
  readonly token: string;
  readonly useCases: UseCases;
  readonly buildLogs: BuildLogs;
  readonly appLogs: AppLogs;
  readonly notifications: Notifications;
  readonly people: People;
  /** Written by `flush` only. */
  readonly tokenUses: TokenUses;
  readonly sealer: Sealer;
  readonly keys: SigningKeys;
  readonly tokens: TokenCheck;
  /** What the sealer seals with. */
  readonly secretKey: string;
  /** A call with the owner's token; `token: null` sends none. */
  call(method: string, path: string, options?: CallOptions): Promise<ApiAnswer>;
  /** Another token of the project, or of another one. */
  issue(wish: { kind: TokenKind; role?: Role; projectId?: ProjectId; name?: string }): Promise<string>;
  /** Another project with an owner. */
  addProject(name: string): Promise<ProjectId>;
};

export type CallOptions = {
  readonly body?: unknown;
  /** Sent as it is, instead of `body` as JSON. */
  readonly text?: string;
  readonly token?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
};

export const testBy: By = { actor: platformActor };

/** What the API does with runs and webhooks. */
function desksOf(given: {
  db: Db;
  sealer: Sealer;
  clock: Clock;
  runs: Partial<RunDeskOptions> | undefined;
  planDesk: PlanDesk;
  keys: SigningKeys;
}) {
  const { db, sealer, clock } = given;
  const chain = new AuditChain({ db, clock, log: silentLog, signer: given.keys });
  const retentionOf = (): number => 365;
  const ignore = (): void => undefined;
  const settings = { resultRetentionDays: 7, resultBytesMax: 1_000_000, told: ignore };
  return {
    runs: new RunDesk({ ...settings, db, clock, log: silentLog, ...given.runs }),
    plans: { desk: given.planDesk, days: { audit: 365, logs: 30 } },
    budgets: new BudgetDesk({ db, clock, log: silentLog, hasMail: false, checkUrl: () => null, onStep: ignore }),
    coupons: new CouponDesk({ db, clock, plans: given.planDesk }),
    usage: new UsageDesk({ db, clock }),
    statements: new StatementDesk({ db, clock }),
    auditLog: new AuditLog({ db, clock, retentionOf }),
    auditExport: new AuditExport({ db, clock, chain, retentionOf }),
    auditForwarding: new ForwardingDesk({ db, sealer, checkUrl: () => null }),
    webhooks: new WebhookDesk({ db, secrets: new SecretDesk({ db, sealer }), onStep: ignore }),
  };
}

/** Serves the instance on a free port until the test ends; returns where. */
async function listen(t: TestContext, api: ReturnType<typeof createApi>): Promise<string> {
  // As the platform's listener has it: a request without a body has no events of one.
  const server = createServer({ optimizeEmptyRequests: true }, (request, response) => api.routing(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(async () => {
    await api.close();
    server.closeAllConnections();
    server.close();
    await once(server, "close");
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Starts it on a free port; everything is closed after the test. */
export async function startManagementApi(
  t: TestContext,
  options: {
    readonly deploysPerMinute?: number;
    readonly clock?: Clock;
    readonly stopping?: AbortSignal;
    readonly isServing?: () => boolean;
    readonly waitReason?: (appId: string) => string | undefined;
    /** What is to be different for runs. */
    readonly runs?: Partial<RunDeskOptions>;
    readonly plans?: Plans;
    readonly postMail?: (mail: Mail) => void;
    /** Bad tokens that an address may send per minute; unbounded when left out. */
    readonly failedTokensPerMinute?: number;
    /** What is to be different for people. */
    readonly people?: Partial<PeopleOptions>;
  } = {},
): Promise<ApiUnderTest> {
  const clock = options.clock ?? systemClock;
  const { db, url } = await testDatabase(t);
  const secretKey = randomBytes(32).toString("hex");
  const sealer = new Sealer([secretKey]);
  const notifications = new Notifications({ url, log: silentLog });
  await notifications.start();
  t.after(() => notifications.stop());
  const keys = new SigningKeys({ sealer, clock });
  await keys.rotate(db, testBy);
  await keys.load(db);
  let baseUrl = "";
  const peopleParts = {
    db,
    sealer,
    keys,
    clock,
    log: silentLog,
    mailer: null,
    baseUrl: () => baseUrl,
    settings: plainSettings,
  };
  const people = await openPeopleArea({ ...peopleParts, ...options.people });
  const tokens = new TokenCheck({ db, keys, notifications, clock, people: people.lookup });
  t.after(() => tokens.close());
  const tokenUses = new TokenUses({ db, clock, log: silentLog });
  const failedPerMinute = options.failedTokensPerMinute ?? Number.POSITIVE_INFINITY;
  const door = new TokenDoor({ check: tokens, uses: tokenUses, failedPerMinute, clock });
  const buildLogs = new BuildLogs({ db, notifications, clock, log: silentLog });
  const appLogs = new AppLogs({ db, notifications, clock });
  const personChanged = (personId: string): void => tokens.personChanged(personId);
  const builds = { receiveBuild, rebuild, requestCancel };
  const planDesk = new PlanDesk({ db, plans: options.plans ?? plansOfNoFile, clock });
  const desk = admittingDesk(builds, { desk: planDesk, refusal: () => null });
  const cases = useCases({ db, sealer, desk, providers: ["aws", "local"], personChanged });
  const api = createApi({
    useCases: cases,
    people,
    tokens: door,
    tokenDesk: new TokenDesk({ db, keys, clock }),
    keyDesk: new KeyDesk({ db, keys, clock }),
    keys,
    buildLogs,
    appLogs,
    ...desksOf({ db, sealer, clock, runs: options.runs, planDesk, keys }),
    membership: {
      members: new MemberDesk({ db, told: personChanged }),
      invitations: new InvitationDesk({ db, clock, told: personChanged }),
      postMail: options.postMail ?? null,
    },
    urls: () => ({ baseUrl, apiUrl: baseUrl, dashboardUrl: `${baseUrl}/dashboard` }),
    deploysPerMinute: options.deploysPerMinute ?? 1000,
    isServing: options.isServing ?? (() => true),
    waitReason: options.waitReason ?? (() => undefined),
    log: silentLog,
    clock,
    ...(options.stopping === undefined ? {} : { stopping: options.stopping }),
  });
  await api.ready();
  baseUrl = await listen(t, api);
  const issue: ApiUnderTest["issue"] = async ({ kind, role = "owner", projectId, name = kind }) => {
    const project = projectId ?? ownProject;
    const wish: TokenWish =
      kind === "operator"
        ? { kind, expiresAt: null }
        : kind === "inference"
          ? { kind, projectId: project }
          : { kind, projectId: project, role, expiresAt: null };
    const { token } = await issueToken(db, { wish, name, key: keys.current(), nowMs: clock.now(), by: testBy });
    return token.reveal();
  };
  const addProject: ApiUnderTest["addProject"] = async (name) => {
    const password = new Secret(randomUUID());
    const ownerId = await createPerson(db, { email: `${randomUUID()}@example.org`, name: "Owner", password });
    return await createProject(db, { name, ownerId, by: testBy });
  };
  const ownProject = await addProject("first");
  const token = await issue({ kind: "service_account", name: "owner" });
  return {
    ...{ db, baseUrl, projectId: ownProject, token, useCases: cases, buildLogs, appLogs },
    ...{ notifications, people, sealer, keys, tokens, tokenUses, secretKey, issue, addProject },
    call: (method, path, given = {}) =>
      call({ method, url: baseUrl + path, ...given, token: given.token === undefined ? token : given.token }),
  };
}

async function call(given: CallOptions & { method: string; url: string; token: string | null }): Promise<ApiAnswer> {
  const { method, url, token, body, text } = given;
  const sent = text ?? (body === undefined ? undefined : JSON.stringify(body));
  const headers = {
    ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    ...(sent === undefined ? {} : { "content-type": "application/json" }),
    ...given.headers,
  };
  const response = await fetch(url, {
    method,
    headers,
    redirect: "manual",
    ...(sent === undefined ? {} : { body: sent }),
  });
  const answered = await response.text();
  const isJson = response.headers.get("content-type")?.startsWith("application/json") && answered !== "";
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(answered) : answered };
}
