// The parts of the management API: the use cases behind its routes, and everything else that
// `platform.ts` hands to it.
import type { z } from "zod";
import type { hardwareAnswer, platformAnswer } from "@slipway/contract/hardware-routes.ts";
import type { SigningKeys } from "#accounts/keys.ts";
import type { OwnerKeyOf } from "#accounts/owner-keys.ts";
import type { RequestKeys } from "#accounts/request-keys.ts";
import type { SigningKeyUseCases } from "#accounts/signing-key-use-cases.ts";
import type { TokenUseCases } from "#accounts/token-use-cases.ts";
import type { CertificateUseCases } from "#acme/certificate-use-cases.ts";
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
import type { Domains } from "#domains/domains.ts";
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
  /** The use cases that `useCases(…)` of `#apps/use-cases.ts` returns. */
  readonly useCases: UseCases;
  /** Finds out who sends a request, by its token. */
  readonly tokens: ApiAuthenticator;
  /** The key of a project's owner, for limits that all projects of an owner share. */
  readonly ownerKeyOf: OwnerKeyOf;
  readonly tokenUseCases: TokenUseCases;
  readonly keyUseCases: SigningKeyUseCases;
  /** The idempotency keys of requests that create something. */
  readonly requestKeys: Pick<RequestKeys, "once">;
  /** The public keys, with which others verify the platform's tokens. */
  readonly keys: Pick<SigningKeys, "jwks">;
  readonly uploads: Pick<Uploads, "progress" | "receive" | "filesOf" | "stage" | "use" | "discard">;
  readonly fileRuns: FileRuns;
  readonly certificates: CertificateUseCases;
  /** The certificates that are in use from files of the operator. */
  readonly certificateFiles: () => readonly {
    readonly file: string;
    readonly names: readonly string[];
    readonly beginsAtMs: number;
    readonly endsAtMs: number;
  }[];
  readonly volumes: Volumes;
  readonly volumeUploads: VolumeUploads;
  readonly buildLogs: Pick<BuildLogs, "page" | "follow">;
  readonly appLogs: Pick<AppLogs, "page" | "follow" | "lastId">;
  readonly runs: RunUseCases;
  readonly webhooks: WebhookUseCases;
  readonly gitHooks: GitHooks;
  readonly repositories: Repositories;
  readonly domains: Domains;
  readonly coupons: CouponUseCases;
  readonly usage: UsageQueries;
  readonly statements: StatementQueries;
  /** `defaults` has the values for what a plan leaves out. */
  readonly plans: { readonly useCases: PlanUseCases; readonly defaults: PlanDefaults };
  readonly budgets: BudgetUseCases;
  readonly auditLog: AuditLog;
  readonly auditExport: Pick<AuditExport, "begin">;
  readonly auditForwarding: ForwardingUseCases;
  /** Members of projects, invitations, and the mail for them. */
  readonly membership: Omit<OpenedMembership, "mailOwners">;
  readonly people: People;
  /** Called for each answer, because the port is known only once the platform listens. */
  readonly urls: () => Urls;
  /** The maximum number of deployments per minute of one project. */
  readonly deploysPerMinute: number;
  /** The maximum number of requests per minute of one token or person. */
  readonly requestsPerMinute: number;
  readonly trustedProxies: TrustedProxies;
  /** The only name at which pages are served, besides addresses and localhost; null: any name. */
  readonly pagesHost: string | null;
  /** Seconds, for `Strict-Transport-Security` of encrypted answers; 0: they have no such header. */
  readonly hstsSeconds: number;
  /** The checks behind `/healthz` and `/readyz`. */
  readonly health: {
    /** Why the platform does not serve requests: it is starting or stopping; null: it serves. */
    notServing(): string | null;
    /** Why calls and runs cannot be accepted now; null: they can. Resolves within seconds. */
    notReady(): Promise<string | null>;
  };
  /** The hardware that replicas can have here now. */
  readonly hardware: () => z.infer<typeof hardwareAnswer>;
  /** The present state of the platform, as operators see it. */
  readonly operatorPlatform: () => Promise<z.infer<typeof platformAnswer>>;
  /** The announcements that `/v2/notifications` returns. */
  readonly announcements: readonly {
    readonly message: string;
    readonly link: string;
    readonly linkText: string;
  }[];
  /** The cores, memory, network and GPUs that replicas use now. */
  readonly replicaUses: () => Promise<ReplicaUses>;
  /** Runs commands in replicas. */
  readonly execs: Pick<ReplicaExecs, "open">;
  readonly useHistory: Pick<UseHistory, "read">;
  /** How both releases of a roll-out perform now: their calls, failures and replicas. */
  readonly conditionsOf: (
    appId: AppId,
    releases: { readonly old: ReleaseId; readonly next: ReleaseId },
  ) => Conditions;
  /**
   * The part of an app's calls that a release gets now, from 0 to 1; null: no replica of the app
   * takes calls.
   */
  readonly shareNow: (appId: AppId, releaseId: ReleaseId) => number | null;
  /**
   * Why the calls of an app wait, or why it has too few replicas; undefined: neither is the case.
   */
  readonly waitReason: (appId: AppId) => string | undefined;
  /** Why the trial replica of an app's build waits to be started; undefined: no build waits. */
  readonly buildWaitReason: (appId: AppId) => string | undefined;
  readonly log: Log;
  readonly clock: Clock;
  /**
   * Aborted when the platform begins to stop. Ends live logs, which otherwise end only with
   * `close()`.
   */
  readonly stopping: AbortSignal;
};

/** The parts that are available to the handlers of routes. */
export type HandlerParts = UseCases &
  Required<Omit<ApiParts, "useCases">> & {
    /** Limits the deployments that a project starts. */
    readonly limit: RateLimit;
    /** Limits the requests of one token or person. */
    readonly requestLimit: RateLimit;
    /** Limits how many logs and roll-outs are followed live. */
    readonly followers: Gate;
    /** Logs the repeated values that are ignored in requests of older clients. */
    readonly ignored: IgnoredNames;
  };
