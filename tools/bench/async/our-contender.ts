// Our platform with its own database on the server, and one of its apps, which is warm.
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "pg";
import { startGitServer, type RepositoryFiles } from "@slipway/server/test/support/git-server.ts";
import type { PlatformProcess } from "@slipway/server/test/support/platform-process.ts";
import { until } from "@slipway/server/test/support/until.ts";
import { workThrough } from "#bench/harness/closed-loop.ts";
import { connectTo, type DatabaseServer } from "#bench/harness/database-server.ts";
import { deployApp, startBenchPlatform } from "#bench/harness/platform.ts";
import { ownCpuSecondsOf } from "#bench/harness/process-use.ts";
import { jsonHeaders, type AppRequest } from "#bench/harness/wrk.ts";
import { addOne, drainMs, runBody, type Contender } from "./contender.ts";
import { busyApp, cortexApp, customApp } from "./our-apps.ts";
import type { Drained, Starts } from "./queue-peer.ts";

/** Database connections of our platform: the default. */
const connections = 10;
const fillers = 64;
const lookMs = 100;

/** A platform of ours, and a connection to its database. */
export type OurPlatform = { readonly platform: PlatformProcess; readonly database: Client };

const repositories: Readonly<Record<string, RepositoryFiles>> = {
  "bench-custom": customApp,
  "bench-cortex": cortexApp,
  "bench-busy": busyApp,
};

/** Starts a platform with its own database on the server. */
export async function startOurPlatform(
  t: TestContext,
  server: DatabaseServer,
  databaseName: string,
): Promise<OurPlatform> {
  const git = await startGitServer(t);
  for (const [name, files] of Object.entries(repositories))
    await git.createRepo("bench", name, files);
  const url = await server.database(databaseName);
  const platform = await startBenchPlatform(t, {
    SLIPWAY_GIT_URL: git.urlTemplate,
    SLIPWAY_DATABASE_URL: url,
    SLIPWAY_DATABASE_CONNECTIONS: String(connections),
    SLIPWAY_WEBHOOK_ALLOW: "127.0.0.0/8",
    SLIPWAY_DRAIN_SECONDS: "1",
    SLIPWAY_LOG_LEVEL: "warn",
  });
  return { platform, database: await connectTo(t, url) };
}

/** Deploys one of our apps. `name`: of the contender. */
export async function deployOurApp(
  ours: OurPlatform,
  appName: "bench-custom" | "bench-cortex" | "bench-busy",
  name: string,
): Promise<OurContender> {
  const fields = { name: appName, gitRepo: `bench/${appName}` };
  const { appId } = await deployApp(ours.platform, fields);
  return new OurContender(name, { ...ours, appName, appId });
}

/** One app of our platform. */
type OurApp = OurPlatform & { readonly appName: string; readonly appId: string };

/** Our platform with one of its apps. */
export class OurContender implements Contender {
  readonly name: string;
  readonly modes = ["the app answers immediately"];
  readonly bare = null;
  readonly app: OurApp;

  constructor(name: string, app: OurApp) {
    this.name = name;
    this.app = app;
  }

  runRequest(openAtMs: number): AppRequest {
    const { apiUrl, projectId, inferenceToken } = this.app.platform.bootstrap;
    const url = `${apiUrl}/v4/${projectId}/${this.app.appName}/run?async=true`;
    return { url, token: inferenceToken, body: runBody(openAtMs), headers: jsonHeaders };
  }

  cpuSeconds(): number {
    return ownCpuSecondsOf(this.app.platform.pid());
  }

  /** With `webhook`: the answer of each run is posted there. */
  async fill(count: number, openAtMs: number, webhook: string | null = null): Promise<void> {
    const run = this.runRequest(openAtMs);
    const forwarding = webhook === null ? "" : `&webhookEndpoint=${encodeURIComponent(webhook)}`;
    const forwarded = { ...run, url: run.url + forwarding };
    await workThrough(count, fillers, async () => void (await addOne(forwarded)));
  }

  /** Runs that had started when the others were released do not count. */
  async drain(): Promise<Drained> {
    const { database, appId } = this.app;
    const openedAt = Date.now();
    await this.settled();
    const { rows } = await database.query<{ jobs: number; seconds: number; failed: number }>(
      `select count(*)::int as jobs, count(*) filter (where state <> 'success')::int as failed,
              extract(epoch from max(ended_at) - min(started_at))::float8 as seconds
         from runs where app_id = $1 and started_at >= to_timestamp($2 / 1000.0) - interval '0.3 second'`,
      [appId, openedAt],
    );
    const { jobs, seconds, failed } = rows[0] ?? { jobs: 0, seconds: 0, failed: 0 };
    if (failed > 0) throw new Error(`${failed} of ${jobs} runs of ${this.name} failed`);
    if (jobs === 0) throw new Error(`no run of ${this.name} began`);
    return { jobs, seconds };
  }

  /** Waits until all of its runs have ended. */
  async settled(): Promise<void> {
    const { database, appId } = this.app;
    const open =
      "select exists (select from runs where app_id = $1 and ended_at is null) as is_open";
    const isOver = async (): Promise<boolean> => {
      // Polling every few milliseconds would add load.
      await sleep(lookMs);
      const { rows } = await database.query<{ is_open: boolean }>(open, [appId]);
      return rows[0]?.is_open === false;
    };
    await until(`all runs of ${this.name} have ended`, isOver, { deadlineMs: drainMs });
  }

  /** The address of its replica, for calling the app directly. */
  async replicaUrl(): Promise<string> {
    const { database, appId, appName } = this.app;
    const address = "select address from replicas where app_id = $1 and state = 'ready'";
    const find = async (): Promise<string | undefined> =>
      (await database.query<{ address: string }>(address, [appId])).rows[0]?.address;
    return `http://${await until(`a replica of ${appName} is ready`, find)}`;
  }

  async work(): Promise<void> {
    await this.starts();
  }

  async rest(): Promise<void> {
    await this.settled();
  }

  async starts(): Promise<Starts> {
    const method = this.app.appName === "bench-cortex" ? "POST" : "GET";
    const answer = await this.app.platform.call(this.app.appName, "starts", undefined, { method });
    const found = (await answer.json()) as { result?: Starts } & Starts;
    return found.result ?? found;
  }
}
