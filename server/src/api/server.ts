// The management API: a Fastify instance without its own listener. The platform passes it the requests that are not calls
// of apps with `instance.routing(request, response)`, after `await instance.ready()`, and ends it with `close()`.
import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import { fastify, type FastifyError, type FastifyInstance, type FastifyRequest } from "fastify";
import type { SigningKeys } from "#accounts/keys.ts";
import type { SigningKeyUseCases } from "#accounts/signing-key-use-cases.ts";
import type { TokenUseCases } from "#accounts/token-use-cases.ts";
import type { UseCases } from "#apps/use-cases.ts";
import type { AuditLog } from "#audit/audit-log.ts";
import type { AuditExport } from "#audit/export/audit-export.ts";
import type { ForwardingUseCases } from "#audit/forwarding/forwarding-use-cases.ts";
import type { BudgetUseCases } from "#billing/budgets/budget-use-cases.ts";
import type { CouponUseCases } from "#billing/coupons/coupon-use-cases.ts";
import type { StatementQueries } from "#billing/statements/statement-queries.ts";
import type { UsageQueries } from "#billing/usage/usage-queries.ts";
import { systemClock, type Clock } from "#lib/clock.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId } from "#lib/ids.ts";
import type { Log } from "#lib/log.ts";
import { RateLimit } from "#lib/rate-limit.ts";
import type { TrustedProxies } from "#lib/trusted-proxies.ts";
import type { AppLogs } from "#logs/app-log.ts";
import type { BuildLogs } from "#logs/build-log.ts";
import type { People } from "#people/people.ts";
import type { GitHooks } from "#pushes/git-hooks.ts";
import type { RunUseCases } from "#runs/run-use-cases.ts";
import type { WebhookUseCases } from "#webhooks/use-cases.ts";
import type { ApiAuthenticator } from "./access.ts";
import { apiKeyHandlers } from "./api-keys.ts";
import { appHandlers } from "./apps.ts";
import { auditExportHandlers } from "./audit-export.ts";
import { auditForwardingHandlers } from "./audit-forwarding.ts";
import { auditLogHandlers } from "./audit-log.ts";
import { buildHandlers } from "./builds.ts";
import { couponHandlers } from "./coupons.ts";
import { credentialHandlers } from "./credentials.ts";
import { deviceLoginHandlers } from "./device-login.ts";
import { faultOf, sendFault } from "./errors.ts";
import { gitHookHandlers } from "./git-hooks.ts";
import { logHandlers } from "./logs.ts";
import { invitationHandlers, memberHandlers, type MemberParts } from "./members.ts";
import { takeForms } from "./forms.ts";
import { operatorTokenHandlers } from "./operator-tokens.ts";
import { addPages } from "./pages.ts";
import { peopleHandlers } from "./people-auth.ts";
import { providerHandlers } from "./people-providers.ts";
import { passwordHandlers, twoFactorHandlers } from "./people-passwords.ts";
import { budgetHandlers } from "./budgets.ts";
import { planHandlers, type PlanParts } from "./plans.ts";
import { platformHandlers, type HealthAnswer } from "./platform-info.ts";
import { projectHandlers } from "./projects.ts";
import { rollOutHandlers } from "./roll-outs.ts";
import { addRoutes } from "./router.ts";
import { releaseHandlers } from "./releases.ts";
import { runHandlers } from "./runs.ts";
import { secretHandlers } from "./secrets.ts";
import { settingsHandlers } from "./settings.ts";
import { serviceAccountHandlers } from "./service-accounts.ts";
import { setSecurityHeaders } from "./security-headers.ts";
import type { Urls } from "./urls.ts";
import { statementHandlers } from "./statements.ts";
import { usageHandlers } from "./usage.ts";
import { webhookHandlers } from "./webhooks.ts";

export type ApiParts = {
  /** `useCases(…)` of `#apps/use-cases.ts`. */
  readonly useCases: UseCases;
  readonly tokens: ApiAuthenticator;
  readonly tokenUseCases: TokenUseCases;
  readonly keyUseCases: SigningKeyUseCases;
  readonly keys: Pick<SigningKeys, "jwks">;
  readonly buildLogs: Pick<BuildLogs, "page" | "follow">;
  readonly appLogs: Pick<AppLogs, "page">;
  readonly runs: RunUseCases;
  readonly webhooks: WebhookUseCases;
  readonly gitHooks: GitHooks;
  readonly coupons: CouponUseCases;
  readonly usage: UsageQueries;
  readonly statements: StatementQueries;
  readonly plans: PlanParts;
  readonly budgets: BudgetUseCases;
  readonly auditLog: AuditLog;
  readonly auditExport: AuditExport;
  readonly auditForwarding: ForwardingUseCases;
  readonly membership: MemberParts;
  readonly people: People;
  /** Evaluated for each answer, because the port is known only once the platform listens. */
  readonly urls: () => Urls;
  readonly deploysPerMinute: number;
  readonly trustedProxies: TrustedProxies;
  /** For `/healthz` and `/readyz`. */
  readonly health: HealthAnswer;
  /** `Scheduler.waitReason`. */
  readonly conditionsOf: Parameters<typeof rollOutHandlers>[0]["conditionsOf"];
  readonly waitReason: (appId: AppId) => string | undefined;
  readonly log: Log;
  readonly clock?: Clock;
  /** Aborted when the platform begins to stop, which ends live logs, as nothing else would. `close()` ends them too. */
  readonly stopping?: AbortSignal;
};

/** The maximum size of a JSON body, in bytes. */
const bodyBytesMax = 1_048_576;
/** Secret names have at most 253 characters, and so do hosts. */
const pathPartLengthMax = 300;

/** Creates the instance; call `ready()` before use and `close()` at the end, which also ends live logs. */
export function createApi(parts: ApiParts): FastifyInstance {
  const { useCases, log, clock = systemClock } = parts;
  const stopping = new AbortController();
  const api = openInstance(parts);
  api.addHook("preClose", (done) => {
    stopping.abort(new Error("the platform is stopping"));
    done();
  });
  const anyStop = parts.stopping === undefined ? stopping.signal : AbortSignal.any([parts.stopping, stopping.signal]);
  const stream = { clock, log, stopping: anyStop };
  const limit = new RateLimit({ max: parts.deploysPerMinute, clock, text: tooManyDeployments });
  const handlers = {
    ...appHandlers({ ...useCases, clock, urls: parts.urls, waitReason: parts.waitReason, limit }),
    ...settingsHandlers({ ...useCases, urls: parts.urls, limit }),
    ...projectHandlers({ projects: useCases.projects, clock }),
    ...memberHandlers(parts.membership),
    ...invitationHandlers({ ...parts.membership, tokens: parts.tokens, urls: parts.urls, clock }),
    ...buildHandlers({ ...useCases, urls: parts.urls }),
    ...releaseHandlers(useCases),
    ...logHandlers({ ...useCases, ...stream, appLogs: parts.appLogs, buildLogs: parts.buildLogs }),
    ...rollOutHandlers({ ...stream, rollOuts: useCases.rollOuts, conditionsOf: parts.conditionsOf }),
    ...runHandlers({ runs: parts.runs, apps: useCases.apps, waitReason: parts.waitReason, clock }),
    ...webhookHandlers(parts.webhooks),
    ...gitHookHandlers({ gitHooks: parts.gitHooks, urls: parts.urls, clock }),
    ...couponHandlers({ useCases: parts.coupons, clock }),
    ...usageHandlers({ usage: parts.usage, apps: useCases.apps, clock }),
    ...statementHandlers(parts.statements),
    ...planHandlers(parts.plans),
    ...budgetHandlers({ useCases: parts.budgets, apps: useCases.apps }),
    ...auditLogHandlers(parts.auditLog),
    ...auditExportHandlers({ auditExport: parts.auditExport, clock, log, stopping: anyStop }),
    ...auditForwardingHandlers(parts.auditForwarding),
    ...peopleHandlers(parts),
    ...providerHandlers(parts),
    ...passwordHandlers(parts),
    ...twoFactorHandlers(parts),
    ...deviceLoginHandlers({ logins: parts.people.devices, urls: parts.urls, clock }),
    ...serviceAccountHandlers(parts.tokenUseCases),
    ...apiKeyHandlers(parts.tokenUseCases),
    ...operatorTokenHandlers({ useCases: parts.tokenUseCases, keys: parts.keyUseCases }),
    ...secretHandlers(useCases),
    ...credentialHandlers(useCases),
    ...platformHandlers({ keys: parts.keys, urls: parts.urls, health: parts.health }),
  };
  addRoutes(api, handlers, {
    tokens: parts.tokens,
    projects: useCases.projects,
    apps: useCases.apps,
    recordFailure: useCases.recordFailure,
    log,
    clock,
  });
  addPages(api);
  return api;
}

/** Configures how it reads requests, and the headers of every answer. */
function openInstance({ trustedProxies, log }: ApiParts): FastifyInstance {
  const api = fastify({
    logger: false,
    genReqId: () => randomUUID(),
    requestIdHeader: false,
    bodyLimit: bodyBytesMax,
    routerOptions: { ignoreDuplicateSlashes: true, ignoreTrailingSlash: true, maxParamLength: pathPartLengthMax },
    frameworkErrors: (error: FastifyError, request, reply) => {
      void reply.header("x-request-id", request.id);
      setSecurityHeaders(reply);
      void sendFault(faultOf(error, request.id), reply, log);
    },
  });
  api.decorateRequest("clientAddress", {
    getter(this: FastifyRequest): string {
      const { socket, headers } = this.raw;
      // Node joins repeated fields.
      return trustedProxies.peerOf(socket).originOf(headers["x-forwarded-for"]?.toString()).address;
    },
  });
  readJsonBodies(api);
  takeForms(api);
  api.addHook("onRequest", (request, reply, done) => {
    void reply.header("x-request-id", request.id);
    setSecurityHeaders(reply);
    done();
  });
  return api;
}

/** Accepts only JSON. An empty body counts as none, even with a content type: some clients send one with every request. */
function readJsonBodies(api: FastifyInstance): void {
  api.removeAllContentTypeParsers();
  // Without a body, the listener's stream has already ended before anybody listens: waiting for its end would hang.
  api.addHook("preParsing", (_request, _reply, payload, done) => {
    done(null, payload.readable ? payload : Readable.from([]));
  });
  api.addContentTypeParser("application/json", { parseAs: "string" }, (_request, text, done) => {
    if (text === "") return done(null, undefined);
    try {
      done(null, JSON.parse(String(text)));
    } catch (error) {
      done(new Fault("malformed", "The body is not valid JSON.", { cause: error }));
    }
  });
}

function tooManyDeployments(used: number, seconds: number): string {
  return `The project has started ${used} deployments within a minute, which is the limit; try again in ${seconds} s.`;
}
