// Everything behind the management API, on a fresh database, except the execution of builds;
// `management-api.ts` serves it.
import type { TestContext } from "node:test";
import { ownerKeys } from "#accounts/owner-keys.ts";
import { RequestKeys } from "#accounts/request-keys.ts";
import { OutwardGuard } from "#lib/outward-guard.ts";
import { OutwardClient } from "#lib/outward-request.ts";
import { toolEnvironmentOf } from "#config.ts";
import { SigningKeyUseCases } from "#accounts/signing-key-use-cases.ts";
import { SigningKeys } from "#accounts/keys.ts";
import { TokenCheck } from "#accounts/token-check.ts";
import { TokenUseCases } from "#accounts/token-use-cases.ts";
import { Authenticator } from "#accounts/authenticator.ts";
import { TokenUses } from "#accounts/token-uses.ts";
import type { IsThere } from "#apps/releases.ts";
import type { GitHosts } from "#apps/repository.ts";
import { useCases } from "#apps/use-cases.ts";
import { AuditChain } from "#audit/chain/audit-chain.ts";
import { AuditLog } from "#audit/audit-log.ts";
import { AuditExport } from "#audit/export/audit-export.ts";
import { ForwardingUseCases } from "#audit/forwarding/forwarding-use-cases.ts";
import { BudgetUseCases } from "#billing/budgets/budget-use-cases.ts";
import { CouponUseCases } from "#billing/coupons/coupon-use-cases.ts";
import { PlanUseCases } from "#billing/plans/plan-use-cases.ts";
import { plansOfNoFile, type Plans } from "#billing/plans/plan.ts";
import { StatementQueries } from "#billing/statements/statement-queries.ts";
import { UsageQueries } from "#billing/usage/usage-queries.ts";
import { endPushes, requestCancel } from "#deploy/end-builds.ts";
import { rebuild, receiveBuild, receiveUpload, receiveSettings } from "#deploy/receive.ts";
import { Git } from "#deploy/sources/git-command.ts";
import type { FindCredential } from "#deploy/sources/git-folder.ts";
import { GitRemote } from "#deploy/sources/git-remote.ts";
import { Uploads } from "#deploy/uploads.ts";
import { StorageFiles } from "#drivers/storage-files.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import { Lifecycle } from "#lib/lifecycle.ts";
import { silentLog, type Log } from "#lib/log.ts";
import { Sealer } from "#lib/seal.ts";
import type { Secret } from "#lib/secret.ts";
import { AppLogs } from "#logs/app-log.ts";
import { BuildLogs } from "#logs/build-log.ts";
import { InvitationUseCases } from "#people/invitation-use-cases.ts";
import type { Mail } from "#people/mailer.ts";
import { MemberUseCases } from "#people/member-use-cases.ts";
import { plainSettings } from "#people/people-settings.ts";
import { GitHooks } from "#pushes/git-hooks.ts";
import { Repositories } from "#pushes/repositories.ts";
import { loadAuthSecret } from "#people/auth-secret.ts";
import { People, type PeopleOptions } from "#people/people.ts";
import { admittingReceiver } from "#billing/plans/admission.ts";
import { openFileRuns } from "#runs/open.ts";
import { RunUseCases, type RunUseCasesOptions } from "#runs/run-use-cases.ts";
import { UsageSampler } from "#scheduler/usage-sampler.ts";
import { UseHistory } from "#scheduler/use-history.ts";
import { openDatabase } from "#store/database.ts";
import { Notifications } from "#store/notify.ts";
import { VolumeSpace } from "#volumes/volume-space.ts";
import { VolumeUploads } from "#volumes/volume-uploads.ts";
import { Volumes } from "#volumes/volumes.ts";
import { WebhookUseCases } from "#webhooks/use-cases.ts";
import { WebhookSecretUseCases } from "#webhooks/secret-use-cases.ts";
import { cleanLast } from "./clean-last.ts";
import { testDatabase, type TestDatabase } from "./database.ts";
import { temporaryFolder } from "./folder.ts";
import { templateSecretKey } from "./test-server.ts";

/** Options. */
export type ManagementOptions = {
  /** A database that a platform already uses, with its secret key; by default a fresh one. */
  readonly fixture?: { readonly url: Secret; readonly secretKey: string };
  readonly clock?: Clock;
  /** By default, nothing is logged. */
  readonly log?: Log;
  /** Overrides for runs. */
  readonly runs?: Partial<RunUseCasesOptions>;
  readonly plans?: Plans;
  /** By default, nothing that was built was removed. */
  readonly isThere?: IsThere;
  readonly postMail?: (mail: Mail) => void;
  /** Bad tokens allowed per address and minute; unlimited by default. */
  readonly failedTokensPerMinute?: number;
  /** What a volume may hold; without a limit by default. */
  readonly storageBytes?: number;
  /** By default, only github.com. */
  readonly gitHosts?: GitHosts;
  /** Which addresses that are not public may be called; by default those of loopback. */
  readonly outwardAllow?: readonly string[];
  /** Overrides for people. */
  readonly people?: Partial<PeopleOptions>;
};

const providers = ["aws", "local"];
const githubOnly: GitHosts = { defaultUrl: "https://github.com/{owner}/{repo}.git", otherUrls: [] };

type Fixture = Awaited<ReturnType<typeof openFixture>>;
type Door = Awaited<ReturnType<typeof openDoor>>;

/** Opens all parts; closed after the test. `baseUrl` is read lazily. */
export async function openManagement(
  t: TestContext,
  options: ManagementOptions,
  baseUrl: () => string,
) {
  const fixture = await openFixture(t, options);
  const door = await openDoor(t, fixture, { ...options, baseUrl });
  const { cases, apiParts } = useCasesOf(fixture, door, options);
  const { db, clock } = fixture;
  const ownerKeyOf = ownerKeys({ db, clock });
  const uploadsDir = temporaryFolder(t, "uploads");
  const room = { bytes: 1e9, reserveBytes: 0 };
  const disk = {
    room,
    buildRefusal: () => null,
    storeRefusal: () => null,
    limitStorage: () => undefined,
    endReplicas: () => undefined,
  };
  const uploads = new Uploads({ db, clock, uploadsDir, bytesMax: 1_000_000, disk, ownerKeyOf });
  const storageDir = temporaryFolder(t, "storage");
  const files = new StorageFiles({ storageDir, userOf: () => null, isUserOwned: false });
  const space = new VolumeSpace({
    db,
    clock,
    files,
    disk,
    ownerKeyOf,
    bytesMax: options.storageBytes ?? null,
  });
  await space.open();
  const volumes = new Volumes({ db, files, space, onRemoved: () => undefined });
  const volumeUploads = new VolumeUploads({ db, clock, files, space, disk, ownerKeyOf });
  const fileRuns = openFileRuns({ asyncBodyBytesMax: 1_000_000 }, cases);
  const repositories = repositoriesOf(t, fixture, { ...options, cases });
  const all = { ...apiParts, ownerKeyOf, uploads, fileRuns, volumes, volumeUploads, repositories };
  return { fixture, door, cases, apiParts: all, uploadsDir, storageDir };
}

async function openFixture(
  t: TestContext,
  { clock = systemClock, log = silentLog, fixture }: ManagementOptions,
) {
  const { db, url } =
    fixture === undefined
      ? await testDatabase(t, { hasKey: true })
      : await openOther(t, fixture.url);
  const secretKey = fixture?.secretKey ?? templateSecretKey;
  const sealer = new Sealer([secretKey]);
  const notifications = new Notifications({ url, log });
  await notifications.start();
  t.after(() => notifications.stop());
  const keys = new SigningKeys({ sealer, clock });
  await keys.load(db);
  return { db, url, secretKey, sealer, notifications, keys, clock, log };
}

async function openOther(t: TestContext, url: Secret): Promise<TestDatabase> {
  const db = await openDatabase({ url, connections: 4, log: silentLog });
  cleanLast(t, () => db.destroy());
  return { db, url };
}

/** Who is calling. */
async function openDoor(
  t: TestContext,
  fixture: Fixture,
  options: ManagementOptions & { baseUrl: () => string },
) {
  const { db, clock, log } = fixture;
  const { baseUrl, failedTokensPerMinute: failedPerMinute = Number.POSITIVE_INFINITY } = options;
  const secret = await loadAuthSecret(db, fixture.sealer);
  const people = new People({
    ...fixture,
    secret,
    mailer: null,
    baseUrl,
    settings: plainSettings,
    ...options.people,
  });
  const tokens = new TokenCheck({ ...fixture, people: people.lookup });
  t.after(() => tokens.close());
  const tokenUses = new TokenUses({ db, clock, log });
  return {
    people,
    tokens,
    tokenUses,
    door: new Authenticator({ check: tokens, uses: tokenUses, failedPerMinute, clock }),
  };
}

/** With the real git. */
function repositoriesOf(
  t: TestContext,
  { db, clock }: Fixture,
  {
    cases,
    gitHosts: hosts = githubOnly,
    outwardAllow: allow = ["127.0.0.0/8"],
  }: ManagementOptions & { readonly cases: ReturnType<typeof useCases> },
): Repositories {
  const findCredential: FindCredential = (projectId, host) =>
    cases.credentials.forFetch(projectId, host);
  const git = new Git({ toolEnvironment: toolEnvironmentOf(process.env) });
  const sourcesDir = temporaryFolder(t, "sources");
  const remote = new GitRemote({
    git,
    hosts,
    sourcesDir,
    findCredential,
    bytesMax: 100_000_000,
    clock,
  });
  const guard = new OutwardGuard({ allow });
  const client = new OutwardClient({ guard, clock, userAgent: "Slipway" });
  t.after(() => client.close());
  return new Repositories({ db, remote, client, findCredential, hosts, providers });
}

/** The use cases on top of the parts. */
function useCasesOf(fixture: Fixture, { tokens, people, door }: Door, options: ManagementOptions) {
  const { db, sealer, clock, keys, log } = fixture;
  const personChanged = (personId: string): void => tokens.personChanged(personId);
  const planUseCases = new PlanUseCases({ db, plans: options.plans ?? plansOfNoFile, clock });
  const receiver = admittingReceiver(
    { receiveBuild, receiveUpload, receiveSettings, rebuild, requestCancel, endPushes },
    { plans: planUseCases, refusal: () => null },
  );
  const { isThere = () => Promise.resolve(true), gitHosts = githubOnly } = options;
  const cases = useCases({ db, sealer, receiver, providers, personChanged, isThere, gitHosts });
  const ignore = (): void => undefined;
  const guard = new OutwardGuard({ allow: ["0.0.0.0/0", "::/0"] });
  const checkUrl = (url: string): string | null => guard.checkUrl(url);
  const runSettings = {
    resultRetentionDays: 7,
    resultBytesMax: 1_000_000,
    onCancelled: ignore,
    builds: { requestCancel },
  };
  const retentionOf = (): number => 365;
  const chain = new AuditChain({ db, clock, log, signer: keys });
  const apiParts = {
    useCases: cases,
    people,
    keys,
    log,
    clock,
    tokens: door,
    tokenUseCases: new TokenUseCases({ db, keys, clock }),
    requestKeys: new RequestKeys({ db, sealer, clock, log }),
    keyUseCases: new SigningKeyUseCases({ db, keys, clock }),
    membership: {
      members: new MemberUseCases({ db, personChanged }),
      invitations: new InvitationUseCases({ db, clock, hashes: people.hashes, personChanged }),
      postMail: options.postMail ?? null,
    },
    buildLogs: new BuildLogs({ ...fixture }),
    appLogs: new AppLogs({ ...fixture }),
    runs: new RunUseCases({ ...runSettings, db, clock, log, ...options.runs }),
    plans: {
      useCases: planUseCases,
      defaults: { auditDays: 365, logDays: 30, callDays: 30, callRecordsPerMinute: 60 },
    },
    budgets: new BudgetUseCases({ db, clock, log, hasMail: false, checkUrl, onStep: ignore }),
    coupons: new CouponUseCases({ db, clock, plans: planUseCases }),
    usage: new UsageQueries({ db, clock }),
    statements: new StatementQueries({ db, clock }),
    auditLog: new AuditLog({ db, clock, retentionOf }),
    auditExport: new AuditExport({ db, clock, chain, retentionOf }),
    auditForwarding: new ForwardingUseCases({ db, sealer, checkUrl }),
    useHistory: new UseHistory({
      db,
      clock,
      log,
      lifecycle: new Lifecycle({ log, clock }),
      replicas: () => [],
      calls: () => [],
      sampler: new UsageSampler({ driver: { usage: () => Promise.resolve(new Map()) }, clock }),
    }),
    gitHooks: new GitHooks({ db, sealer, clock, hosts: gitHosts, onDelivery: ignore }),
    webhooks: new WebhookUseCases({
      db,
      secrets: new WebhookSecretUseCases({ db, sealer }),
      onStep: ignore,
    }),
  };
  return { cases, apiParts };
}
