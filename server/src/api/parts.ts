// What the management API is made of: the use cases behind its routes, and what `platform.ts` gives
// it beside them.
import type { z } from "zod";
import type { hardwareAnswer, platformAnswer } from "@slipway/contract/hardware-routes.ts";
import type { SigningKeys } from "#accounts/keys.ts";
import type { OwnerKeyOf } from "#accounts/owner-keys.ts";
import type { RequestKeys } from "#accounts/request-keys.ts";
import type { SigningKeyUseCases } from "#accounts/signing-key-use-cases.ts";
import type { TokenUseCases } from "#accounts/token-use-cases.ts";
import type { UseCases } from "#apps/use-cases.ts";
import type { AuditLog } from "#audit/audit-log.ts";
import type { AuditExport } from "#audit/export/audit-export.ts";
import type { ForwardingUseCases } from "#audit/forwarding/forwarding-use-cases.ts";
import type { BudgetUseCases } from "#billing/budgets/budget-use-cases.ts";
import type { CouponUseCases } from "#billing/coupons/coupon-use-cases.ts";
import type { PlanUseCases } from "#billing/plans/plan-use-cases.ts";
import type { PlanDefaults } from "#billing/plans/plan.ts";
import type { StatementQueries } from "#billing/statements/statement-queries.ts";
import type { UsageQueries } from "#billing/usage/usage-queries.ts";
import type { Uploads } from "#deploy/uploads.ts";
import type { Conditions } from "#deploy/worse.ts";
import type { Clock } from "#lib/clock.ts";
import type { Gate } from "#lib/gate.ts";
import type { AppId, ReleaseId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import type { RateLimit } from "#lib/rate-limit.ts";
import type { TrustedProxies } from "#lib/trusted-proxies.ts";
import type { AppLogs } from "#logs/app-log.ts";
import type { BuildLogs } from "#logs/build-log.ts";
import type { ReplicaUses } from "#scheduler/replica-use.ts";
import type { ReplicaExecs } from "#scheduler/replica-execs.ts";
import type { UseHistory } from "#scheduler/use-history.ts";
import type { People } from "#people/people.ts";
import type { OpenedMembership } from "#people/open.ts";
import type { GitHooks } from "#pushes/git-hooks.ts";
import type { Repositories } from "#pushes/repositories.ts";
import type { FileRuns } from "#runs/file-runs.ts";
import type { RunUseCases } from "#runs/run-use-cases.ts";
import type { VolumeUploads } from "#volumes/volume-uploads.ts";
import type { Volumes } from "#volumes/volumes.ts";
import type { WebhookUseCases } from "#webhooks/use-cases.ts";
import type { ApiAuthenticator } from "./access.ts";
import type { IgnoredNames } from "./older-clients.ts";
import type { Urls } from "./urls.ts";

export type ApiParts = {
  /** `useCases(…)` of `#apps/use-cases.ts`. */
  readonly useCases: UseCases;
  readonly tokens: ApiAuthenticator;
  /** Whom a project counts to in fair shares. */
  readonly ownerKeyOf: OwnerKeyOf;
  readonly tokenUseCases: TokenUseCases;
  readonly keyUseCases: SigningKeyUseCases;
  /** The idempotency keys of requests that create something. */
  readonly requestKeys: Pick<RequestKeys, "once">;
  readonly keys: Pick<SigningKeys, "jwks">;
  readonly uploads: Pick<Uploads, "progress" | "receive" | "filesOf" | "stage" | "use" | "discard">;
  readonly fileRuns: FileRuns;
  readonly volumes: Volumes;
  readonly volumeUploads: VolumeUploads;
  readonly buildLogs: Pick<BuildLogs, "page" | "follow">;
  readonly appLogs: Pick<AppLogs, "page" | "follow" | "lastId">;
  readonly runs: RunUseCases;
  readonly webhooks: WebhookUseCases;
  readonly gitHooks: GitHooks;
  readonly repositories: Repositories;
  readonly coupons: CouponUseCases;
  readonly usage: UsageQueries;
  readonly statements: StatementQueries;
  readonly plans: { readonly useCases: PlanUseCases; readonly defaults: PlanDefaults };
  readonly budgets: BudgetUseCases;
  readonly auditLog: AuditLog;
  readonly auditExport: Pick<AuditExport, "begin">;
  readonly auditForwarding: ForwardingUseCases;
  readonly membership: Omit<OpenedMembership, "mailOwners">;
  readonly people: People;
  /** Evaluated for each answer, because the port is known only once the platform listens. */
  readonly urls: () => Urls;
  readonly deploysPerMinute: number;
  /** The maximum number of requests per minute of one token or person. */
  readonly requestsPerMinute: number;
  readonly trustedProxies: TrustedProxies;
  /** For `/healthz` and `/readyz`. */
  readonly health: {
    /** Why it does not serve, because it is starting or stopping; null: it does. */
    notServing(): string | null;
    /** Why calls and runs cannot be accepted now; null: they can. Answers within seconds. */
    notReady(): Promise<string | null>;
  };
  /** What replicas can have here now. */
  readonly hardware: () => z.infer<typeof hardwareAnswer>;
  /** What operators see of the platform now. */
  readonly operatorPlatform: () => Promise<z.infer<typeof platformAnswer>>;
  /** What `/v2/notifications` tells. */
  readonly announcements: readonly {
    readonly message: string;
    readonly link: string;
    readonly linkText: string;
  }[];
  /** What replicas use now. */
  readonly replicaUses: () => Promise<ReplicaUses>;
  /** Runs commands in replicas. */
  readonly execs: Pick<ReplicaExecs, "open">;
  readonly useHistory: Pick<UseHistory, "read">;
  /** How the releases of a roll-out do now. */
  readonly conditionsOf: (
    appId: AppId,
    releases: { readonly old: ReleaseId; readonly next: ReleaseId },
  ) => Conditions;
  /**
   * The part of an app's calls that a release gets now, from 0 to 1; null: no replica of the app
   * takes calls.
   */
  readonly shareNow: (appId: AppId, releaseId: ReleaseId) => number | null;
  /** Why the calls of an app wait, or why it has too few replicas; undefined: neither is so. */
  readonly waitReason: (appId: AppId) => string | undefined;
  /** Why the replica of a build of an app waits; undefined: none does. */
  readonly buildWaitReason: (appId: AppId) => string | undefined;
  readonly log: Log;
  readonly clock: Clock;
  /**
   * Aborted when the platform begins to stop, which ends live logs, as nothing else would.
   * `close()` ends them too.
   */
  readonly stopping: AbortSignal;
};

/** What handlers of routes choose from. */
export type HandlerParts = UseCases &
  Required<Omit<ApiParts, "useCases">> & {
    /** Limits the deployments that a project starts. */
    readonly limit: RateLimit;
    /** Limits the requests of one token or person. */
    readonly requestLimit: RateLimit;
    /** Limits how many logs and roll-outs are followed live. */
    readonly followers: Gate;
    /** What older clients repeat. */
    readonly ignored: IgnoredNames;
  };
