// The database of a whole platform stands still, is killed, and has no connection left, while
// calls, runs, sign-ins and reads go on: warm calls do not notice, what cannot be stored is refused
// with a reason, and everything comes back by itself. In full (SLIPWAY_TEST_FAULTS=full): more
// rounds, and it stands still until everything has been refused.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { sql } from "kysely";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { lockFolder } from "#store/folder-lock.ts";
import { startEmbedded } from "#store/postgres/embedded.ts";
import { clientOf, freezeServer, serverPid } from "#test/support/embedded-processes.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import "#test/support/leftovers.ts";
import { startTraffic, type RunTraffic } from "#test/support/run-traffic.ts";
import { until } from "#test/support/until.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { connect } from "./support/connect.ts";

const isFull = process.env["SLIPWAY_TEST_FAULTS"] === "full";
const runsEach = 60;
const waitMs = 90_000;
const timeout = isFull ? 3_600_000 : 240_000;

type Answer = {
  readonly status: number;
  readonly message: string;
  readonly retryAfter: string | null;
};

async function answerOf(asked: Promise<Response>): Promise<Answer> {
  const response = await asked;
  const text = await response.text();
  const { message = "" } = JSON.parse(text) as { message?: string };
  return { status: response.status, message, retryAfter: response.headers.get("retry-after") };
}

const expected = { accept: 202, acceptOnce: 202, read: 200, signIn: 200 } as const;
type Question = keyof typeof expected;
const questions = Object.keys(expected) as Question[];

/** Calls a warm replica all the time, and asks what people and programs ask of a platform. */
class Asking {
  readonly refusals: Partial<Record<Question, number>> = {};
  readonly traffic: RunTraffic;
  warmCalls = 0;
  readonly #calling: Promise<void>;
  #isOver = false;

  constructor(traffic: RunTraffic) {
    this.traffic = traffic;
    this.#calling = this.#callWarm();
    this.#calling.catch(() => undefined);
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await this.#calling;
  }

  /**
   * True when it is answered as it should be; false when it is refused for the time being, with
   * what to do.
   */
  async ask(name: Question): Promise<boolean> {
    const { status, message, retryAfter } = await answerOf(this.#question(name));
    if (status === expected[name]) return true;
    assert.equal(status, 503, `${name}: ${status} ${message}`);
    assert.match(message, /database|could not be stored|Too many async calls/, name);
    assert.match(retryAfter ?? "none", /^\d+$/, `${name}: ${message}`);
    this.refusals[name] = (this.refusals[name] ?? 0) + 1;
    return false;
  }

  async areRefused(names: readonly Question[] = questions): Promise<void> {
    const isRefused = async (name: Question): Promise<boolean> => !(await this.ask(name));
    await Promise.all(
      names.map((name) =>
        until(`${name} is refused`, () => isRefused(name), { deadlineMs: waitMs }),
      ),
    );
  }

  async areAnswered(): Promise<void> {
    await Promise.all(
      questions.map((name) =>
        until(`${name} is answered`, () => this.ask(name), { deadlineMs: waitMs }),
      ),
    );
  }

  /** Warm calls are answered after this moment, too. */
  async warmCallsGoOn(): Promise<void> {
    const max = this.warmCalls + 20;
    await Promise.race([until("warm calls go on", () => this.warmCalls > max), this.#calling]);
  }

  #question(name: Question): Promise<Response> {
    const { platform, appId } = this.traffic;
    const { baseUrl, projectId, serviceAccountToken, ownerEmail, ownerPassword } =
      platform.bootstrap;
    const headers = {
      authorization: `Bearer ${serviceAccountToken}`,
      "content-type": "application/json",
    };
    const person = JSON.stringify({ email: ownerEmail, password: ownerPassword });
    switch (name) {
      case "accept":
        return platform.call("work", "warm?async=true", {});
      case "acceptOnce":
        return platform.call(
          "work",
          "warm?async=true",
          {},
          { headers: { "idempotency-key": crypto.randomUUID() } },
        );
      case "read":
        return fetch(`${baseUrl}/v2/projects/${projectId}/apps/${appId}/runs`, { headers });
      case "signIn":
        return fetch(`${baseUrl}/v2/auth/sign-in`, { method: "POST", headers, body: person });
    }
  }

  async #callWarm(): Promise<void> {
    while (!this.#isOver) {
      const answer = await this.traffic.platform.call("work", "warm", {});
      const text = await answer.text();
      assert.equal(answer.status, 200, `a warm call: ${text}`);
      this.warmCalls++;
    }
  }
}

/**
 * While `fault` does its work warm calls go on and runs flow; afterwards everything is as it was.
 */
async function withstands(
  traffic: RunTraffic,
  fault: (asking: Asking) => Promise<void>,
): Promise<Asking> {
  let isOver = false;
  const asking = new Asking(traffic);
  const max = traffic.accepted.size + runsEach;
  const sending = traffic.send((numbers) => isOver || numbers >= max, 4);
  sending.catch(() => undefined);
  try {
    await asking.warmCallsGoOn();
    await fault(asking);
    await asking.areAnswered();
    const { baseUrl } = traffic.platform.bootstrap;
    await until(
      "it says that it is well",
      async () => (await fetch(`${baseUrl}/readyz`)).status === 200,
    );
  } finally {
    isOver = true;
    await asking.stop();
    await sending;
  }
  return asking;
}

async function killed(asking: Asking): Promise<void> {
  const { dataDir } = asking.traffic.platform;
  const pid = serverPid(dataDir);
  process.kill(pid, "SIGKILL");
  const isAnother = (): boolean => serverPid(dataDir) !== pid;
  await Promise.all([
    asking.areAnswered(),
    until("another server has started", isAnother, { deadlineMs: waitMs }),
  ]);
  await asking.warmCallsGoOn();
}

async function frozen(asking: Asking): Promise<void> {
  const { platform } = asking.traffic;
  const goOn = freezeServer(platform.dataDir);
  const others = isFull
    ? asking.areRefused(["read", "signIn"])
    : Promise.all([asking.ask("read"), asking.ask("signIn")]);
  let haveOthersEnded = false;
  void others
    .catch(() => undefined)
    .then(() => {
      haveOthersEnded = true;
    });
  try {
    await asking.areRefused(["accept", "acceptOnce"]);
    assert.ok(!haveOthersEnded, "accepting takes 10 s at most, a statement without an answer 30 s");
    await asking.warmCallsGoOn();
    const { baseUrl } = platform.bootstrap;
    const ready = await fetch(`${baseUrl}/readyz`);
    assert.equal(ready.status, 503);
    assert.match(
      ((await ready.json()) as { message: string }).message,
      /database does not accept writes/,
    );
    assert.equal((await fetch(`${baseUrl}/healthz`)).status, 200, "a restart would not help");
    if (isFull) await others;
  } finally {
    goOn();
  }
  await others;
}

/** Another client takes every connection that there is, also those that the platform has. */
async function crowded(asking: Asking): Promise<void> {
  const { dataDir } = asking.traffic.platform;
  const first = clientOf(dataDir, "crowd");
  await first.connect();
  const taken = [first];
  const takeAll = async (): Promise<void> => {
    for (;;) {
      const client = clientOf(dataDir, "crowd");
      const isConnected = await client.connect().then(
        () => true,
        () => false,
      );
      if (!isConnected) return;
      taken.push(client);
    }
  };
  const others = "from pg_stat_activity where application_name = 'slipway'";
  const crowdOut = async (): Promise<boolean> => {
    await first.query(`select pg_terminate_backend(pid) ${others}`);
    await takeAll();
    const { rows } = await first.query<{ n: number }>(`select count(*)::int n ${others}`);
    return rows[0]?.n === 0;
  };
  try {
    await until("the platform has no connection", crowdOut);
    let areAllRefused = false;
    // A connection of the platform's that is just being made is not in the list yet: it is looked
    // for again.
    const goingOn = until("all are refused", async () => (await crowdOut(), areAllRefused), {
      deadlineMs: waitMs,
    });
    goingOn.catch(() => undefined);
    await asking.areRefused();
    areAllRefused = true;
    await goingOn;
    await asking.warmCallsGoOn();
  } finally {
    await Promise.all(taken.map((client) => client.end().catch(() => undefined)));
  }
}

test("a statement that the server leaves without an answer fails, and its connection is not used again", async (t) => {
  const { url, dataDir } = await startServer(t);
  const clock = new VirtualClock();
  const db = await connect(url, 1, { clock });
  t.after(() => db.destroy());
  await sql`create table noted (n int)`.execute(db);
  const goOn = freezeServer(dataDir);
  const asked = db.transaction().execute((tx) => sql`insert into noted values (1)`.execute(tx));
  const refused = assert.rejects(asked, /Connection terminated/);
  await clock.advance(36_000);
  await refused;
  goOn();
  await until(
    "the next one is answered",
    async () => (await sql`insert into noted values (2)`.execute(db)) !== undefined,
  );
  const { rows } = await sql<{ n: number }>`select n from noted`.execute(db);
  assert.deepEqual(rows, [{ n: 2 }], "nothing is left of the transaction that was cut");
});

async function startServer(t: TestContext) {
  const dataDir = temporaryFolder(t, "frozen");
  const lock = lockFolder(join(dataDir, "slipway.lock"));
  const folder = join(dataDir, "postgres");
  mkdirSync(folder, { recursive: true });
  const server = await startEmbedded({
    clock: systemClock,
    folder,
    lock,
    connections: 10,
    log: silentLog,
    durable: false,
  });
  t.after(async () => {
    await server.stop();
    lock.release();
  });
  return { url: server.url, dataDir };
}

test(
  "a database that stands still, is killed or is crowded costs nothing but time",
  { timeout },
  async (t) => {
    const traffic = await startTraffic(t);
    for (const [name, fault, rounds] of [
      ["stands still", frozen, 3],
      ["killed", killed, 20],
      ["crowded", crowded, 10],
    ] as const) {
      await t.test(name, { timeout }, async (part) => {
        for (let round = 0; round < (isFull ? rounds : 1); round++) {
          const asking = await withstands(traffic, fault);
          part.diagnostic(
            `${asking.warmCalls} warm calls; refused: ${JSON.stringify(asking.refusals)}`,
          );
        }
      });
    }
    await t.test(
      "every run that was accepted has ended once, and was delivered",
      { timeout },
      async (part) => {
        part.diagnostic(
          `${traffic.accepted.size} runs: ${JSON.stringify(await traffic.settled())}`,
        );
      },
    );
  },
);
