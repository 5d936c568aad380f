// The environment of the async run benchmark: one PostgreSQL, started as the platform starts its
// own, a database on it for each contender, our platform with its apps, the job queues, and a
// webhook receiver.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { Client } from "pg";
import { silentLog } from "@slipway/server/src/lib/log.ts";
import { startEmbedded } from "@slipway/server/src/store/postgres/embedded.ts";
import { lockFolder } from "@slipway/server/src/store/folder-lock.ts";
import { deploy } from "@slipway/server/test/support/examples.ts";
import { openGitServer, type RepositoryFiles } from "@slipway/server/test/support/git-server.ts";
import {
  startPlatform,
  type PlatformProcess,
} from "@slipway/server/test/support/platform-process.ts";
import { administer, databaseUrl } from "@slipway/server/test/support/test-server.ts";
import { systemClock } from "@slipway/server/src/lib/clock.ts";
import { cpuSecondsOf, startChild, type Child } from "#bench/child.ts";
import { connectTo, OurContender, PeerContender } from "./contender.ts";
import { busyApp, cortexApp, customApp } from "./our-apps.ts";

/** Database connections of our platform: the default. */
const connections = 10;
/**
 * Database connections of a job queue: one per caller, since each of its adds waits for its own
 * fsync.
 */
const peerConnections = 64;
/** For all databases together. */
const serverConnections = 250;

/** A database server shared by all contenders. */
export type Server = {
  /** Creates a database and returns its URL. */
  database(name: string): Promise<string>;
  /** CPU seconds of all its processes. */
  cpuSeconds(): number;
};

/** Cleans up in reverse order of opening. */
export class Stage {
  readonly folder = mkdtempSync(join(tmpdir(), "slipway-bench-"));
  readonly #cleanups: (() => unknown)[] = [
    () => rmSync(this.folder, { recursive: true, force: true }),
  ];

  /** Call it when the benchmark is over. */
  onClose(clean: () => unknown): void {
    this.#cleanups.unshift(clean);
  }

  async close(): Promise<void> {
    for (const clean of this.#cleanups) await clean();
  }
}

/** Starts PostgreSQL with the settings of an embedded one; it is durable. */
export async function openServer(stage: Stage): Promise<Server> {
  const lock = lockFolder(join(stage.folder, "lock"));
  stage.onClose(() => lock.release());
  const folder = join(stage.folder, "postgres");
  const server = await startEmbedded({
    clock: systemClock,
    folder,
    lock,
    log: silentLog,
    connections: serverConnections,
  });
  stage.onClose(() => server.stop());
  const url = server.url.reveal();
  return {
    async database(name) {
      await administer(url, `create database bench_${name}`);
      return databaseUrl(url, `bench_${name}`);
    },
    cpuSeconds: () => cpuSecondsOf(server.pid() ?? -1),
  };
}

/** A platform of ours with its apps. */
export type OurPlatform = {
  readonly platform: PlatformProcess;
  readonly database: Client;
  /** Deploys an app of ours and warms it up. */
  app(name: string, contenderName: string): Promise<OurContender>;
};

const repositories: Readonly<Record<string, RepositoryFiles>> = {
  "bench-custom": customApp,
  "bench-cortex": cortexApp,
  "bench-busy": busyApp,
};

/** Starts a platform with its own database on the server. */
export async function openPlatform(
  stage: Stage,
  server: Server,
  databaseName: string,
): Promise<OurPlatform> {
  const git = await openGitServer();
  stage.onClose(() => git.close());
  for (const [name, files] of Object.entries(repositories))
    await git.createRepo("bench", name, files);
  const context = {
    after: (clean: () => unknown) => stage.onClose(clean),
  } as unknown as TestContext;
  const url = await server.database(databaseName);
  const platform = await startPlatform(context, {
    SLIPWAY_GIT_URL: git.urlTemplate,
    SLIPWAY_DATABASE_URL: url,
    SLIPWAY_DATABASE_CONNECTIONS: String(connections),
    SLIPWAY_WEBHOOK_ALLOW: "127.0.0.0/8",
    SLIPWAY_DRAIN_SECONDS: "1",
    SLIPWAY_LOG_LEVEL: "warn",
  });
  const database = await connectTo(url);
  stage.onClose(() => database.end());
  return {
    platform,
    database,
    async app(appName, name) {
      const app = await deploy(platform, { name: appName, gitRepo: `bench/${appName}` });
      if (app.status !== "success")
        throw new Error(`the build of ${appName} ended with ${app.status}\n${app.log}`);
      return new OurContender({ name, platform, appName, appId: app.appId, database });
    },
  };
}

/** Job queues, each with its modes of executing jobs. */
const peers = {
  "graphile-worker": [
    "unbatched",
    "fetched and completed in batches",
    "unbatched, the job calls the app",
  ],
  "pg-boss": ["one by one", "batches of 100"],
} as const;
const scripts = { "graphile-worker": "graphile-peer", "pg-boss": "pg-boss-peer" } as const;

/**
 * Starts a job queue with its own database on the server. `appUrl`: the app that its jobs call, in
 * modes that call one.
 */
export async function openPeer(
  stage: Stage,
  server: Server,
  { name, appUrl }: { readonly name: keyof typeof peers; readonly appUrl: string },
): Promise<PeerContender> {
  const environment = {
    BENCH_DATABASE: await server.database(name.replace("-", "_")),
    BENCH_CONNECTIONS: String(peerConnections),
    BENCH_APP: appUrl,
  };
  const child = await openScript(stage, scripts[name], environment);
  return new PeerContender(name, peers[name], child);
}

/** Starts one of the scripts beside this file. */
export async function openScript(
  stage: Stage,
  name: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<Child> {
  const file = join(import.meta.dirname, `${name}.ts`);
  const child = await startChild([process.execPath, file], { core: null, port: null, environment });
  stage.onClose(() => child.stop());
  return child;
}
