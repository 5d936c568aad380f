// Everything behind the management API, on a fresh database, but the work on builds: what `management-api.ts` serves.
import type { TestContext } from "node:test";
import { KeyDesk } from "#accounts/key-desk.ts";
import { SigningKeys } from "#accounts/keys.ts";
import { TokenCheck } from "#accounts/token-check.ts";
import { TokenDesk } from "#accounts/token-desk.ts";
import { TokenDoor } from "#accounts/token-door.ts";
import { TokenUses } from "#accounts/token-uses.ts";
import { useCases } from "#apps/use-cases.ts";
import { AuditChain } from "#audit/audit-chain.ts";
import { AuditLog } from "#audit/audit-log.ts";
import { AuditExport } from "#audit/export.ts";
import { ForwardingDesk } from "#audit/forwarding-desk.ts";
import { BudgetDesk } from "#billing/budget-desk.ts";
import { CouponDesk } from "#billing/coupon-desk.ts";
import { PlanDesk } from "#billing/plan-desk.ts";
import { plansOfNoFile, type Plans } from "#billing/plan.ts";
import { StatementDesk } from "#billing/statements.ts";
import { UsageDesk } from "#billing/usage-desk.ts";
import { rebuild, receiveBuild, requestCancel } from "#deploy/receive.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { Sealer } from "#lib/seal.ts";
import type { Secret } from "#lib/secret.ts";
import { AppLogs } from "#logs/app-log.ts";
import { BuildLogs } from "#logs/build-log.ts";
import { InvitationDesk } from "#people/invitations.ts";
import type { Mail } from "#people/mailer.ts";
import { MemberDesk } from "#people/members.ts";
import { plainSettings } from "#people/people-settings.ts";
import { openPeopleArea, type PeopleOptions } from "#people/people.ts";
import { admittingDesk } from "#platform-plans.ts";
import { RunDesk, type RunDeskOptions } from "#runs/run-desk.ts";
import { openDatabase } from "#store/database.ts";
import { Notifications } from "#store/notify.ts";
import { WebhookDesk } from "#webhooks/desk.ts";
import { SecretDesk } from "#webhooks/secret-desk.ts";
import { cleanLast } from "./clean-last.ts";
import { testDatabase, type TestDatabase } from "./database.ts";
import { templateSecretKey } from "./test-server.ts";

/** What may be different. */
export type ManagementOptions = {
  /** A database that a platform works on already, and its secret key; else a fresh one. */
  readonly ground?: { readonly url: Secret; readonly secretKey: string };
  readonly clock?: Clock;
  /** What is to be different for runs. */
  readonly runs?: Partial<RunDeskOptions>;
  readonly plans?: Plans;
  readonly postMail?: (mail: Mail) => void;
  /** Bad tokens that an address may send per minute; unbounded when left out. */
  readonly failedTokensPerMinute?: number;
  /** What is to be different for people. */
  readonly people?: Partial<PeopleOptions>;
};

type Ground = Awaited<ReturnType<typeof openGround>>;
type Door = Awaited<ReturnType<typeof openDoor>>;

/** Opens it all; closed after the test. `baseUrl` is asked late. */
export async function openManagement(t: TestContext, options: ManagementOptions, baseUrl: () => string) {
  const ground = await openGround(t, options);
  const door = await openDoor(t, ground, { ...options, baseUrl });
  return { ground, door, ...desksOf(ground, door, options) };
}

async function openGround(t: TestContext, { clock = systemClock, ground }: ManagementOptions) {
  const { db, url } = ground === undefined ? await testDatabase(t, { hasKey: true }) : await openOther(t, ground.url);
  const secretKey = ground?.secretKey ?? templateSecretKey;
  const sealer = new Sealer([secretKey]);
  const notifications = new Notifications({ url, log: silentLog });
  await notifications.start();
  t.after(() => notifications.stop());
  const keys = new SigningKeys({ sealer, clock });
  await keys.load(db);
  return { db, secretKey, sealer, notifications, keys, clock, log: silentLog };
}

async function openOther(t: TestContext, url: Secret): Promise<TestDatabase> {
  const db = await openDatabase({ url, connections: 4, log: silentLog });
  cleanLast(t, () => db.destroy());
  return { db, url };
}

/** Who is calling. */
async function openDoor(t: TestContext, ground: Ground, options: ManagementOptions & { baseUrl: () => string }) {
  const { db, clock, log } = ground;
  const { baseUrl, failedTokensPerMinute: failedPerMinute = Number.POSITIVE_INFINITY } = options;
  const people = await openPeopleArea({
    ...{ ...ground, mailer: null, baseUrl, settings: plainSettings },
    ...options.people,
  });
  const tokens = new TokenCheck({ ...ground, people: people.lookup });
  t.after(() => tokens.close());
  const tokenUses = new TokenUses({ db, clock, log });
  return { people, tokens, tokenUses, door: new TokenDoor({ check: tokens, uses: tokenUses, failedPerMinute, clock }) };
}

/** What is done with all that there is. */
function desksOf(ground: Ground, { tokens, people, door }: Door, options: ManagementOptions) {
  const { db, sealer, clock, keys, log } = ground;
  const told = (personId: string): void => tokens.personChanged(personId);
  const planDesk = new PlanDesk({ db, plans: options.plans ?? plansOfNoFile, clock });
  const desk = admittingDesk({ receiveBuild, rebuild, requestCancel }, { desk: planDesk, refusal: () => null });
  const cases = useCases({ db, sealer, desk, providers: ["aws", "local"], personChanged: told });
  const ignore = (): void => undefined;
  const runSettings = { resultRetentionDays: 7, resultBytesMax: 1_000_000, told: ignore };
  const retentionOf = (): number => 365;
  const chain = new AuditChain({ db, clock, log, signer: keys });
  const apiParts = {
    ...{ useCases: cases, people, keys, log, clock },
    tokens: door,
    tokenDesk: new TokenDesk({ db, keys, clock }),
    keyDesk: new KeyDesk({ db, keys, clock }),
    membership: {
      members: new MemberDesk({ db, told }),
      invitations: new InvitationDesk({ db, clock, hashes: people.hashes, told }),
      postMail: options.postMail ?? null,
    },
    buildLogs: new BuildLogs({ ...ground }),
    appLogs: new AppLogs({ ...ground }),
    runs: new RunDesk({ ...runSettings, db, clock, log, ...options.runs }),
    plans: { desk: planDesk, days: { audit: 365, logs: 30 } },
    budgets: new BudgetDesk({ db, clock, log, hasMail: false, checkUrl: () => null, onStep: ignore }),
    coupons: new CouponDesk({ db, clock, plans: planDesk }),
    usage: new UsageDesk({ db, clock }),
    statements: new StatementDesk({ db, clock }),
    auditLog: new AuditLog({ db, clock, retentionOf }),
    auditExport: new AuditExport({ db, clock, chain, retentionOf }),
    auditForwarding: new ForwardingDesk({ db, sealer, checkUrl: () => null }),
    webhooks: new WebhookDesk({ db, secrets: new SecretDesk({ db, sealer }), onStep: ignore }),
  };
  return { cases, apiParts };
}
