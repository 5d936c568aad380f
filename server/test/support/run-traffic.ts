// Sends async runs with webhooks through a platform while a test injects faults, and checks the
// guarantee that must hold in any case: each run answered with 202 ends once, with its own answer,
// and is delivered.
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { deploy } from "./examples.ts";
import { startGitServer } from "./git-server.ts";
import { startPlatform, type PlatformProcess } from "./platform-process.ts";
import { until } from "./until.ts";
import { startReceiver, type WebhookReceiver } from "./webhook-receiver.ts";

/** Returns how often it has run for each request, and fails for every tenth number. */
const workApp = `import collections, time

seen = collections.Counter()

def run(number, sent):
    seen[number, sent] += 1
    time.sleep((number % 7) / 100)
    if number % 10 == 0:
        raise ValueError("every tenth fails")
    return {"number": number, "times": seen[number, sent]}

def warm():
    # Whoever calls it again and again does not keep a processor busy with that.
    time.sleep(0.02)
    return 1
`;

const finalStates = new Set(["success", "failure", "cancelled", "timeout"]);
const sendersAtOnce = 16;
const askersAtOnce = 8;
const waitMs = 120_000;

/** A run as the API shows it. */
export type RunItem = {
  readonly id: string;
  readonly status: string;
  readonly statusCode: number | null;
  readonly reason: string | null;
};

/** The app `work` on its own platform; `send` sends runs, `settled` checks them. */
export class RunTraffic {
  readonly platform: PlatformProcess;
  readonly receiver: WebhookReceiver;
  readonly appId: string;
  /** Pushes another version of the app's code. */
  readonly push: () => Promise<unknown>;
  /** Accepted runs by their number. */
  readonly accepted = new Map<number, string>();
  #next = 1;

  constructor(parts: Pick<RunTraffic, "platform" | "receiver" | "appId" | "push">) {
    this.platform = parts.platform;
    this.receiver = parts.receiver;
    this.appId = parts.appId;
    this.push = parts.push;
  }

  /** A progress counter: increases with each accepted or delivered run. */
  happened(): number {
    return this.accepted.size + this.receiver.received.length;
  }

  /**
   * Sends runs concurrently until `isEnough` returns true for their count; resolves when all
   * started requests are accepted.
   */
  async send(isEnough: (numbers: number) => boolean, senders = sendersAtOnce): Promise<void> {
    const sender = async (): Promise<void> => {
      while (!isEnough(this.#next - 1)) await this.#sendOne(this.#next++);
    };
    await Promise.all(Array.from({ length: senders }, sender));
  }

  /**
   * With an idempotency key the request is retried; without one a request with an unknown outcome
   * does not count.
   */
  async #sendOne(number: number): Promise<void> {
    const hook = `run?async=true&webhookEndpoint=${encodeURIComponent(this.receiver.url)}`;
    const isKeyed = number % 2 === 0;
    const headers: Record<string, string> = isKeyed
      ? { "idempotency-key": `number-${number}` }
      : {};
    let sent = 0;
    const isAccepted = async (): Promise<boolean> => {
      const response = await this.platform
        .call("work", hook, { number, sent }, { headers })
        .catch(() => null);
      const text = (await response?.text().catch(() => "")) ?? "";
      if (response?.status === 202 && text !== "") {
        this.accepted.set(number, (JSON.parse(text) as { run_id: string }).run_id);
        return true;
      }
      // Without a key nobody knows whether the request was accepted: send another one.
      if (!isKeyed) sent++;
      return false;
    };
    await until(`run ${number} is accepted`, isAccepted, { deadlineMs: waitMs });
  }

  /**
   * Checks that every accepted run has ended exactly once, as it must; returns the number of runs
   * per outcome. `killed`: the reason of runs whose replica the test has killed.
   */
  async settled(killed = /^interrupted/): Promise<Record<string, number>> {
    const counts: Record<string, number> = {};
    const successes = new Map<number, string>();
    const runs = [...this.accepted];
    const items = new Map<number, RunItem>();
    const ask = async (): Promise<void> => {
      for (let run = runs.pop(); run !== undefined; run = runs.pop())
        items.set(run[0], await this.#ended(run[1]));
    };
    await Promise.all(Array.from({ length: askersAtOnce }, ask));
    for (const [number, item] of items) {
      const isInterrupted = killed.test(item.reason ?? "");
      const key = isInterrupted ? "interrupted" : item.status;
      counts[key] = (counts[key] ?? 0) + 1;
      if (item.status === "success") successes.set(number, item.id);
      if (isInterrupted) continue;
      assert.equal(
        item.status,
        number % 10 === 0 ? "failure" : "success",
        `run ${number}: ${JSON.stringify(item)}`,
      );
    }
    await this.#delivered(successes);
    // Includes runs whose 202 was cut off, for which nobody has waited.
    for (const status of ["pending", "queued", "running"]) {
      const isNone = async (): Promise<boolean> =>
        (await this.platform.api("GET", `${this.#runs()}?status=${status}`)).body.items.length ===
        0;
      await until(`no run is left ${status}`, isNone, { deadlineMs: waitMs });
    }
    return counts;
  }

  async #ended(runId: string): Promise<RunItem> {
    let item: RunItem | null = null;
    const ask = async (): Promise<RunItem | null> => {
      const { status, body } = await this.platform.api("GET", `${this.#runs()}/${runId}`);
      assert.equal(status, 200, `an accepted run is known: ${JSON.stringify(body)}`);
      item = body.item as RunItem;
      return finalStates.has(item.status) ? item : null;
    };
    return await until(`run ${runId} has ended`, ask, { deadlineMs: waitMs }).catch(
      async (error: unknown) => {
        const { body } = await this.platform.api(
          "GET",
          this.#runs().replace(/runs$/, "containers"),
        );
        throw new Error(`${JSON.stringify(item)}, with replicas ${JSON.stringify(body)}`, {
          cause: error,
        });
      },
    );
  }

  /**
   * Checks that all were delivered, failures too; for a success the function ran once, and its own
   * answer was delivered.
   */
  async #delivered(successes: ReadonlyMap<number, string>): Promise<void> {
    const bodies = new Map<string, Buffer>();
    let seen = 0;
    const areAll = (): boolean => {
      for (; seen < this.receiver.received.length; seen++) {
        const one = this.receiver.received[seen];
        const runId = String(one?.headers["x-request-id"]);
        if (one !== undefined && !bodies.has(runId)) bodies.set(runId, one.body);
      }
      return [...this.accepted.values()].every((runId) => bodies.has(runId));
    };
    await until("every run was delivered", areAll, { deadlineMs: waitMs });
    for (const [number, runId] of successes) {
      const { result } = JSON.parse(String(bodies.get(runId))) as {
        result: { number: number; times: number };
      };
      assert.deepEqual(result, { number, times: 1 });
    }
  }

  #runs(): string {
    return `/v2/projects/${this.platform.bootstrap.projectId}/apps/${this.appId}/runs`;
  }
}

type TrafficOptions = {
  /** Fields of the app. */
  readonly fields?: Record<string, number | string>;
  /** SLIPWAY_… variables. */
  readonly settings?: Record<string, string>;
};

/** Starts a platform with the app, at most two replicas of it, and a receiver. */
export async function startTraffic(
  t: TestContext,
  { fields, settings }: TrafficOptions = {},
): Promise<RunTraffic> {
  const git = await startGitServer(t);
  await git.createRepo("acme", "work", { "main.py": workApp });
  const receiver = await startReceiver(t);
  const platform = await startPlatform(t, {
    SLIPWAY_GIT_URL: git.urlTemplate,
    SLIPWAY_WEBHOOK_ALLOW: "127.0.0.0/8",
    ...settings,
  });
  const usual = {
    cooldownPeriodSeconds: 600,
    replicaConcurrency: 8,
    maxReplicaCount: 2,
    ...fields,
  };
  const app = await deploy(platform, {
    name: "work",
    gitRepo: "acme/work",
    pythonVersion: "3.11",
    ...usual,
  });
  assert.equal(app.status, "success", app.log);
  let versions = 0;
  const push = (): Promise<unknown> =>
    git.push("acme", "work", { "main.py": `${workApp}\n# Version ${++versions}\n` });
  return new RunTraffic({ platform, receiver, appId: app.appId, push });
}
