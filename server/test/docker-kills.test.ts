// The platform, its engine and its containers are killed in random order while an app is called,
// built and scaled: afterwards the platform's state and the engine's agree, nothing is left behind,
// and no second of a replica is billed twice. The kills are drawn from a seed, which is printed;
// SLIPWAY_TEST_SEED repeats it. In full (SLIPWAY_TEST_FAULTS=full) there are 200.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { Client } from "pg";
import { installationOf } from "#drivers/app-firewall.ts";
import { bridges } from "#drivers/docker/app-networks.ts";
import { cleanLast } from "#test/support/clean-last.ts";
import { emptyDatabase } from "#test/support/database.ts";
import { noEngine } from "#test/support/docker-engine.ts";
import { removeRules } from "#test/support/docker-platform.ts";
import { runDocker, type StartedEngine } from "#test/support/dockerd.ts";
import { countOf } from "#test/support/drawn-cases.ts";
import { drawnOf, unseenSeed } from "#test/support/drawn-seed.ts";
import { startOwnEngine, type OwnEngine } from "#test/support/own-engine.ts";
import { startTraffic, type RunTraffic } from "#test/support/run-traffic.ts";
import { Seeded } from "#test/support/seeded.ts";
import { templateName } from "#test/support/test-server.ts";
import { until } from "#test/support/until.ts";

const skip = await noEngine();
const isFull = process.env["SLIPWAY_TEST_FAULTS"] === "full";
const kills = isFull ? 200 : countOf({ what: "kills", complete: 8, short: 4 });
const runsEach = 15;
const seed = Number(process.env["SLIPWAY_TEST_SEED"] ?? unseenSeed());
const deadlineMs = 180_000;
/** They run one after the other, and each kill interrupts one. */
const buildsDeadlineMs = 900_000;

const kinds = ["platform", "container", "removal", "engine", "engine's end"] as const;

/** A platform on an engine of its own, with traffic. */
class Stage {
  readonly traffic: RunTraffic;
  readonly #databaseUrl: string;
  readonly #engine: OwnEngine;
  #instanceId = "";

  constructor(given: {
    readonly traffic: RunTraffic;
    readonly databaseUrl: string;
    readonly engine: OwnEngine;
  }) {
    this.traffic = given.traffic;
    this.#databaseUrl = given.databaseUrl;
    this.#engine = given.engine;
  }

  static async open(t: TestContext): Promise<Stage> {
    const engine = await startOwnEngine(t);
    const databaseUrl = (await emptyDatabase(t, { template: templateName })).reveal();
    const traffic = await startTraffic(t, {
      // That of the base image: the engine reaches no package servers.
      fields: {
        pythonVersion: "3.11",
        cpu: 0.5,
        memory: 0.25,
        maxReplicaCount: 3,
        minReplicaCount: 1,
      },
      settings: {
        SLIPWAY_DRIVER: "docker",
        SLIPWAY_DOCKER_HOST: engine.current.dockerHost,
        SLIPWAY_DATABASE_URL: databaseUrl,
        SLIPWAY_DEPLOYS_PER_MINUTE: "10000",
      },
    });
    cleanLast(t, () => removeRules(traffic.platform));
    const made = new Stage({ traffic, databaseUrl, engine });
    // The engine leaves the interfaces of networks on the machine.
    cleanLast(t, () => made.removeAll());
    made.#instanceId = (
      await readFile(join(traffic.platform.dataDir, "instance.id"), "utf8")
    ).trim();
    return made;
  }

  get engine(): StartedEngine {
    return this.#engine.current;
  }

  get path(): string {
    return `/v2/projects/${this.traffic.platform.bootstrap.projectId}/apps/${this.traffic.appId}`;
  }

  /** Ids of containers, all or those that run. */
  containers(...options: readonly "--all"[]): string[] {
    const ours = `--filter=label=slipway.instance=${this.#instanceId}`;
    return runDocker(this.engine, "ps", "--quiet", ...options, ours)
      .split("\n")
      .filter(Boolean);
  }

  /** What else of the platform is in the engine, by ids. */
  listed(what: "network" | "image"): string[] {
    const ours = `--filter=label=slipway.instance=${this.#instanceId}`;
    const ids = runDocker(this.engine, what, "ls", "--quiet", "--no-trunc", ours)
      .split("\n")
      .filter(Boolean);
    return [...new Set(ids)].toSorted();
  }

  /** Removes its containers and networks. */
  removeAll(): void {
    for (const id of this.containers("--all")) runDocker(this.engine, "rm", "--force", id);
    for (const id of this.listed("network")) runDocker(this.engine, "network", "rm", id);
  }

  async kill(kind: (typeof kinds)[number], seeded: Seeded): Promise<void> {
    const { platform } = this.traffic;
    if (kind === "platform") {
      await platform.end("SIGKILL");
      await platform.restart();
    } else if (kind === "container" || kind === "removal") {
      const ids = this.containers();
      const id = ids[seeded.integer(0, Math.max(0, ids.length - 1))];
      const words = kind === "container" ? ["kill"] : ["rm", "--force"];
      try {
        if (id !== undefined) runDocker(this.engine, ...words, id);
      } catch (error) {
        // It ended by itself meanwhile.
        assert.match(String(error), /No such container|is not running|already in progress/);
      }
    } else {
      await this.#engine.end(kind === "engine" ? "SIGKILL" : "SIGTERM");
      await this.#engine.start();
    }
  }

  async change(method: string, path: string, body: object): Promise<void> {
    const { status, body: answer } = await this.traffic.platform
      .api(method, `${this.path}${path}`, body)
      .catch(() => ({ status: 0, body: "the platform was killed" }));
    // 409: another change is under way.
    assert.ok([0, 200, 201, 409].includes(status), `${status} ${JSON.stringify(answer)}`);
  }

  /** Changes settings, as soon as no other change is under way. */
  async set(fields: object): Promise<void> {
    let answer: unknown;
    const isTaken = async (): Promise<boolean> => {
      const { status, body } = await this.traffic.platform.api("PATCH", this.path, fields);
      answer = body;
      return status === 200;
    };
    await until("the settings are changed", isTaken, { deadlineMs }).catch((cause: unknown) => {
      throw new Error(JSON.stringify(answer), { cause });
    });
  }

  /** Rows of a query on the platform's database. */
  async rows(sql: string): Promise<Record<string, unknown>[]> {
    const client = new Client(this.#databaseUrl);
    await client.connect();
    try {
      return (await client.query(sql)).rows as Record<string, unknown>[];
    } finally {
      await client.end();
    }
  }

  /**
   * Waits until the rows of replicas that have not ended are the containers, as many as wanted, and
   * no other has a file.
   */
  async agrees(count: number): Promise<void> {
    const { platform } = this.traffic;
    let seen: unknown;
    const isSame = async (): Promise<boolean> => {
      const rows = await this.rows("select id from replicas where state <> 'stopped' order by id");
      const ids = rows.map(({ id }) => String(id));
      const names = runDocker(this.engine, "ps", "--format", '{{.Label "slipway.replica"}}')
        .split("\n")
        .filter(Boolean)
        .toSorted();
      const files = readdirSync(join(platform.dataDir, "containers"));
      const all = this.containers("--all");
      seen = { ids, names, files, all };
      const isTrue =
        names.join() === ids.toSorted().join() && files.every((name) => ids.includes(name));
      return isTrue && ids.length === count && all.length === count;
    };
    await until(`${count} replicas by platform and engine`, isSame, { deadlineMs }).catch(
      async (cause: unknown) => {
        const { body } = await platform.api("GET", this.path);
        throw new Error(`${JSON.stringify(seen)} of ${JSON.stringify(body)}`, { cause });
      },
    );
  }
}

test(
  "kills of platform, engine and containers leave one truth and nothing else",
  { skip, timeout: 7_200_000 },
  async (t) => {
    const seeded = new Seeded(drawnOf(seed).seed);
    t.diagnostic(`seed ${seed}: ${kills} kills`);
    const stage = await Stage.open(t);
    const { traffic } = stage;
    const counts: Record<string, number> = {};
    for (let round = 0; round < kills; round++) {
      const kind =
        (round < kinds.length ? kinds[round] : kinds[seeded.integer(0, kinds.length - 1)]) ??
        "platform";
      const max = (round + 1) * runsEach;
      const sending = traffic.send((numbers) => numbers >= max, 4);
      sending.catch(() => undefined);
      const meddling = Promise.all([
        stage.change("PATCH", "", { minReplicaCount: seeded.integer(0, 3) }),
        seeded.chance(0.4)
          ? traffic.push().then(() => stage.change("POST", "/builds", {}))
          : undefined,
      ]);
      meddling.catch(() => undefined);
      await until(
        "it is time",
        () => traffic.accepted.size >= max - runsEach + seeded.integer(0, 3),
        { deadlineMs },
      );
      await stage.kill(kind, seeded);
      counts[kind] = (counts[kind] ?? 0) + 1;
      await Promise.all([sending, meddling]);
    }
    const ended = await traffic.settled(/^interrupted|replica ended during the run/);
    t.diagnostic(
      `${JSON.stringify(counts)}; ${traffic.accepted.size} runs ended: ${JSON.stringify(ended)}`,
    );
    await until(
      "calls are answered",
      async () => (await traffic.platform.call("work", "warm", {})).status === 200,
      {
        deadlineMs,
      },
    );
    const unfinished =
      "select * from builds where status in ('pending', 'building', 'initializing') order by number";
    let left: unknown[] = [];
    const isNoneLeft = async (): Promise<boolean> =>
      (left = await stage.rows(unfinished)).length === 0;
    await until("no build is left", isNoneLeft, { deadlineMs: buildsDeadlineMs }).catch(
      (cause: unknown) => {
        throw new Error(`${left.length} builds are left, first ${JSON.stringify(left[0])}`, {
          cause,
        });
      },
    );
    await stage.set({ minReplicaCount: 2, cooldownPeriodSeconds: 0 });
    await stage.agrees(2);
    await stage.set({ minReplicaCount: 0 });
    await stage.agrees(0);
    await billedOnce(stage);
    await leftNothing(stage);
  },
);

/**
 * The images of the releases that can start, the network that the next replica finds, and the rules
 * of both; then not even those.
 */
async function leftNothing(stage: Stage): Promise<void> {
  const { platform } = stage.traffic;
  const used =
    "select distinct artifact->>'image' as image from releases where collected_at is null";
  let seen: unknown;
  const areUsed = async (): Promise<boolean> => {
    const images = stage.listed("image");
    const wanted = (await stage.rows(used)).map(({ image }) => String(image)).toSorted();
    seen = { images, wanted };
    return images.join() === wanted.join();
  };
  await until("the images are those of releases", areUsed, { deadlineMs }).catch(
    (cause: unknown) => {
      throw new Error(JSON.stringify(seen), { cause });
    },
  );
  const folders = readdirSync(join(platform.dataDir, "builds"));
  assert.deepEqual(
    folders.filter((name) => /^[0-9a-f]{8}-[0-9a-f]{4}-/.test(name)),
    [],
    "no folder of a build",
  );
  const installation = installationOf(platform.dataDir);
  const links = readdirSync("/sys/class/net").filter((name) =>
    name.startsWith(`${bridges.prefix}${installation}`),
  );
  assert.deepEqual(
    [stage.listed("network").length, links.length],
    [1, 1],
    "the network of the only app",
  );
  const list = ["list", "table", "inet", `slipway_${installation}`];
  const [limited = ""] =
    /elements = \{[^}]*\}/.exec(execFileSync("nft", list, { encoding: "utf8" })) ?? [];
  for (const [, link] of limited.matchAll(/"([^"]+)"/g))
    assert.ok(existsSync(`/sys/class/net/${link}`), limited);
  await platform.end("SIGTERM");
  const { status, stderr } = spawnSync("nft", list, { encoding: "utf8" });
  assert.notEqual(status, 0, "the rules are gone with the platform that has no replicas");
  assert.match(stderr, /No such file/);
}

/** Each replica has slices that do not overlap, and together last as long as it did. */
async function billedOnce(stage: Stage): Promise<void> {
  const unmetered = "select id from replicas where started_at is not null and not is_metered";
  await until("all is metered", async () => (await stage.rows(unmetered)).length === 0, {
    deadlineMs,
  });
  const overlaps = await stage.rows(`
    select source_id from (
      select source_id, begins_at, lag(begins_at + ms * interval '1 millisecond')
        over (partition by source_id order by begins_at) as ended_at
      from usage_slices) as slices
    where ended_at > begins_at + interval '1 millisecond'`);
  assert.deepEqual(overlaps, []);
  const wrong = await stage.rows(`
    select id, started_at, stopped_at, sum(ms) as billed from replicas left join usage_slices on source_id = id
    where started_at is not null
    group by id, started_at, stopped_at
    having stopped_at is null or abs(coalesce(sum(ms), 0) - extract(epoch from stopped_at - started_at) * 1000) > 2`);
  const [started] = await stage.rows(
    "select count(*)::int as count from replicas where started_at is not null",
  );
  assert.ok(Number(started?.["count"]) > 0);
  assert.deepEqual(wrong, []);
}
