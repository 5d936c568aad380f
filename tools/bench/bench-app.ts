// The app of the proxy benchmark: its route, its replica and an already verified token, in the
// shapes that the platform's tables give to the proxy.
import { createHash } from "node:crypto";
import type { Caller } from "@slipway/server/src/accounts/caller.ts";
import { Authenticator } from "@slipway/server/src/accounts/authenticator.ts";
import { TokenUses } from "@slipway/server/src/accounts/token-uses.ts";
import type { AppRoute } from "@slipway/server/src/apps/routes.ts";
import { withDefaults } from "@slipway/server/src/apps/settings.ts";
import { systemClock } from "@slipway/server/src/lib/clock.ts";
import {
  appIdOf,
  type BuildId,
  type ProjectId,
  type ReleaseId,
  type ReplicaId,
  type TokenId,
} from "@slipway/server/src/lib/ids.ts";
import { silentLog } from "@slipway/server/src/lib/log.ts";
import { LruMap } from "@slipway/server/src/lib/lru-map.ts";
import type { Db } from "@slipway/server/src/store/database.ts";
import type { ReadyReplica } from "@slipway/server/src/scheduler/replica-view.ts";

const projectId = "p-0be5c4ed" as ProjectId;
const appName = "bench";
const releaseId = "00000000-0000-4000-8000-000000000001" as ReleaseId;

/** The app's id. */
export const benchAppId = appIdOf(projectId, appName);

/** Settings of an app with many concurrent calls; the rest are defaults. */
const settings = withDefaults({ name: appName, gitRepo: "bench/app", replicaConcurrency: 1000 });

/** The app, deployed and with authentication. */
export const benchRoute: AppRoute = Object.freeze({
  appId: benchAppId,
  projectId,
  appName,
  disableAuth: false,
  live: { releaseId, buildId: "00000000-0000-4000-8000-000000000002" as BuildId, settings },
  latestBuild: { status: "success" as const, reason: null },
  restarts: 0,
  rollOut: null,
  refusedReleaseId: null,
});

/** The only replica of the app: the benchmark's upstream. */
export function benchReplica(port: number): ReadyReplica {
  return Object.freeze({
    replicaId: "bench-0000000000" as ReplicaId,
    appId: benchAppId,
    releaseId,
    address: { host: "127.0.0.1", port },
    concurrency: settings.replicaConcurrency,
  });
}

/** As long as a real token: three parts, some 700 characters. */
export const benchToken = ["header", "payload", "signature"]
  .map((part, index) =>
    createHash("sha512")
      .update(part)
      .digest("base64url")
      .repeat(index === 2 ? 4 : 2),
  )
  .join(".");

/**
 * The platform's own authenticator with a cached token, as after its first check; it records each
 * use.
 */
export function benchTokens(token: string): Authenticator {
  const tokenId = "00000000-0000-4000-8000-000000000003" as TokenId;
  const account = { tokenId, accountId: tokenId, role: null, permissions: null, name: "bench" };
  const caller: Caller = { kind: "inference", projectId, ...account };
  const known = new LruMap<string, Caller>(10_000);
  known.set(token, caller);
  const cached = (given: string): Caller | null => known.get(given) ?? null;
  const check = { cached, check: (given: string) => Promise.resolve(cached(given)) };
  // A loop writes these records; it is not started, because there is no database here.
  const uses = new TokenUses({ db: {} as Db, clock: systemClock, log: silentLog });
  return new Authenticator({
    check: { ...check, wasValid: () => false, endedId: () => null },
    uses,
    failedPerMinute: 100,
    clock: systemClock,
  });
}

/** The path of the calls, the same through every proxy. */
export const benchPath = `/v4/${projectId}/${appName}/run`;
