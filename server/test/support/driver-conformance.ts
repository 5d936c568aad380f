// The conformance suite of drivers: a test file calls `conformance(name, makeFixture)` to run it
// against one driver. A fixture is where replicas of that driver live. Driver objects on it come
// and go, like the processes of the platform.
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { systemClock } from "#lib/clock.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { formatAddress } from "#drivers/address.ts";
import {
  StartRefused,
  type Address,
  type Driver,
  type OwnedReplica,
  type ReplicaEvent,
  type ReplicaLine,
  type ReplicaSink,
  type ReplicaSpec,
} from "#drivers/driver.ts";

/** The behaviour of a test replica. */
export type Behaviour =
  /** Becomes ready on its own, prints `lines` before, and ends when asked. */
  | { readonly kind: "serves"; readonly lines?: readonly string[] }
  /** Becomes ready and does not end when asked. */
  | { readonly kind: "ignores_stop" }
  /** Writes these bytes to standard output and exits. */
  | { readonly kind: "exits"; readonly exitCode: number; readonly output: Buffer }
  /** Cannot be started at all. */
  | { readonly kind: "refused" };

/** What only some backends do, and a test can bring about. */
export type Conditions = {
  /** Accepts a replica that waits for a machine until `proceed`, and then serves. */
  readonly pending?: { spec(): ReplicaSpec; proceed(replicaId: ReplicaId): void };
  /** From `begin` to `end` the backend answers nothing. */
  readonly outage?: { begin(): void; end(): void };
};

/** The machine, cluster or memory in which the replicas of one test live. */
export type ConformanceFixture = {
  /** A new driver object on this fixture, not yet opened. */
  driver(): Driver;
  /** A new replica id each time. */
  spec(behaviour: Behaviour): ReplicaSpec;
  /** Whether the replica at this address accepts calls. */
  isReady(address: Address): Promise<boolean>;
  /** Everything that exists of replicas here: processes, folders, records. */
  remains(): Promise<readonly string[]>;
  readonly conditions?: Conditions;
  close(): Promise<void>;
};

/** Generous: nothing here takes nearly as long, except on a machine under load. */
const waitMs = 30_000;
const readyPauseMs = 5;
const longLineBytes = 64 * 1024;

/** Runs the suite; `conditions` names what the fixture can bring about. */
export function conformance(
  name: string,
  makeFixture: () => Promise<ConformanceFixture>,
  conditions: readonly (keyof Conditions)[] = [],
): void {
  const promise = (what: string, run: (stage: Stage) => Promise<void>): void => {
    it(what, async () => {
      const stage = await Stage.open(makeFixture);
      try {
        await run(stage);
        await stage.end();
        assert.deepEqual(
          await stage.fixture.remains(),
          [],
          "nothing is left after stop and forget",
        );
      } finally {
        await stage.fixture.close();
      }
    });
  };
  describe(`the ${name} driver`, () => {
    startPromises(promise);
    outputPromises(promise);
    stopPromises(promise);
    adoptionPromises(promise);
    measuringPromises(promise);
    storagePromises(promise);
    if (conditions.includes("pending")) pendingPromises(promise);
    if (conditions.includes("outage")) outagePromises(promise);
  });
}

type Promised = (what: string, run: (stage: Stage) => Promise<void>) => void;

const live = (): AbortSignal => new AbortController().signal;

function startPromises(promise: Promised): void {
  promise(
    "tells started and exited in this order, each once, and lists what it tells",
    async (stage) => {
      const spec = stage.fixture.spec({ kind: "serves" });
      await stage.driver.start(spec, live());
      const started = await stage.ready(spec.replicaId);
      const [owned] = untimed(await stage.driver.list());
      assert.deepEqual(owned, {
        replicaId: spec.replicaId,
        appId: spec.appId,
        releaseId: spec.releaseId,
        state: "running",
        address: started.address,
        reason: null,
        ranMs: 0,
      });
      await stage.driver.stop(spec.replicaId, { graceMs: waitMs });
      assert.deepEqual(stage.kinds(spec.replicaId), ["started", "exited"]);
      const [gone] = await stage.driver.list();
      assert.equal(gone?.state, "exited");
      assert.ok(gone.reason !== null && gone.reason.endsWith("."), "the reason is a sentence");
    },
  );

  promise("starts an id once, however often it is asked to", async (stage) => {
    const spec = stage.fixture.spec({ kind: "serves" });
    await Promise.all([stage.driver.start(spec, live()), stage.driver.start(spec, live())]);
    await stage.ready(spec.replicaId);
    await stage.driver.start(spec, live());
    assert.equal((await stage.driver.list()).length, 1);
    await stage.driver.stop(spec.replicaId, { graceMs: waitMs });
    assert.deepEqual(stage.kinds(spec.replicaId), ["started", "exited"]);
  });

  promise("leaves nothing behind and tells nothing when a start is refused", async (stage) => {
    const spec = stage.fixture.spec({ kind: "refused" });
    await assert.rejects(stage.driver.start(spec, live()), StartRefused);
    assert.deepEqual(await stage.driver.list(), []);
    assert.deepEqual(await stage.fixture.remains(), []);
    assert.deepEqual(stage.kinds(spec.replicaId), []);
  });

  promise(
    "leaves nothing behind when a start is aborted before or while it happens",
    async (stage) => {
      const before = stage.fixture.spec({ kind: "serves" });
      await assert.rejects(stage.driver.start(before, AbortSignal.abort()), StartRefused);
      const meanwhile = stage.fixture.spec({ kind: "serves" });
      const abort = new AbortController();
      const start = stage.driver.start(meanwhile, abort.signal);
      abort.abort();
      await assert.rejects(start, StartRefused);
      assert.deepEqual(await stage.driver.list(), []);
      assert.deepEqual(await stage.fixture.remains(), []);
      assert.deepEqual(stage.events, []);
    },
  );

  promise("keeps what is reserved for a replica until it is gone, and says so", async (stage) => {
    const { driver, fixture } = stage;
    let freed = 0;
    const unheard = driver.pools.onFree(() => freed++);
    const spec = fixture.spec({ kind: "serves" });
    assert.equal(driver.pools.capacity(spec, []), "now");
    const claim = driver.pools.reserve(spec.replicaId, spec, []);
    assert.equal(claim?.compute, spec.compute);
    assert.ok(driver.pools.all.some(({ name }) => name === claim.pool));
    assert.deepEqual(driver.pools.reserve(spec.replicaId, spec, []), claim, "once for a replica");
    await driver.start(spec, live());
    await stage.ready(spec.replicaId);
    assert.deepEqual(driver.pools.claims, new Map([[spec.replicaId, claim]]));
    await driver.stop(spec.replicaId, { graceMs: waitMs });
    assert.deepEqual([driver.pools.claims.size, freed], [0, 1]);

    const refused = fixture.spec({ kind: "refused" });
    driver.pools.reserve(refused.replicaId, refused, []);
    await assert.rejects(driver.start(refused, live()), StartRefused);
    const unstarted = fixture.spec({ kind: "serves" });
    driver.pools.reserve(unstarted.replicaId, unstarted, []);
    await driver.stop(unstarted.replicaId, { graceMs: 0 });
    assert.deepEqual([driver.pools.claims.size, freed], [0, 3]);
    unheard();
    driver.pools.reserve(unstarted.replicaId, unstarted, []);
    await driver.stop(unstarted.replicaId, { graceMs: 0 });
    assert.equal(freed, 3);
  });

  promise("starts twenty at once and ends them all", async (stage) => {
    const specs = Array.from({ length: 20 }, () => stage.fixture.spec({ kind: "serves" }));
    await Promise.all(specs.map((spec) => stage.driver.start(spec, live())));
    const events = await Promise.all(specs.map((spec) => stage.ready(spec.replicaId)));
    const addresses = new Set(events.map(({ address }) => formatAddress(address)));
    assert.equal(addresses.size, specs.length, "each has an address of its own");
    await Promise.all(specs.map((spec) => stage.driver.stop(spec.replicaId, { graceMs: waitMs })));
    for (const spec of specs) assert.deepEqual(stage.kinds(spec.replicaId), ["started", "exited"]);
  });
}

function outputPromises(promise: Promised): void {
  promise(
    "tells the exit with its code, and hands over every line, in order, before the replica is forgotten",
    async (stage) => {
      const texts = Array.from({ length: 2000 }, (_, index) => `line ${index}`);
      const spec = stage.fixture.spec({
        kind: "exits",
        exitCode: 3,
        output: Buffer.from(texts.join("\n")),
      });
      await stage.driver.start(spec, live());
      const exited = await stage.told("exited", spec.replicaId);
      assert.deepEqual(await stage.allLines(spec.replicaId), texts);
      assert.equal(exited.exitCode, 3);
      assert.match(exited.reason, /exit code 3/);
    },
  );

  promise("cuts lines that are too long and replaces what is not text", async (stage) => {
    const long = "x".repeat(longLineBytes + 70_000);
    const output = Buffer.concat([
      Buffer.from(`${long}\n`),
      Buffer.from([0x61, 0xff, 0xfe, 0x00, 0x62, 0x0a]),
      Buffer.from("after\r\n\nunfinished"),
    ]);
    const spec = stage.fixture.spec({ kind: "exits", exitCode: 0, output });
    await stage.driver.start(spec, live());
    await stage.told("exited", spec.replicaId);
    const texts = await stage.allLines(spec.replicaId);
    assert.equal(texts[0], long.slice(0, longLineBytes));
    assert.deepEqual(texts.slice(1), ["a\ufffd\ufffd\ufffdb", "after", "", "unfinished"]);
  });

  promise(
    "waits until lines are stored before it hands over more, but not to tell the exit",
    async (stage) => {
      const store = Promise.withResolvers<void>();
      stage.storing = () => store.promise;
      const spec = stage.fixture.spec({
        kind: "exits",
        exitCode: 0,
        output: Buffer.from("first\nlast\n"),
      });
      await stage.driver.start(spec, live());
      await stage.told("exited", spec.replicaId);
      await stage.until(() => stage.taken.length > 0);
      const forgotten = stage.driver.forget(spec.replicaId);
      assert.equal(
        stage.handedOver,
        1,
        "nothing more was handed over before the first lines were stored",
      );
      assert.equal(
        (await stage.driver.list())[0]?.state,
        "exited",
        "it is kept until its lines are stored",
      );
      store.resolve();
      await forgotten;
      assert.deepEqual(await stage.allLines(spec.replicaId), ["first", "last"]);
      assert.deepEqual(await stage.driver.list(), []);
    },
  );
}

function stopPromises(promise: Promised): void {
  promise("resolves a stop of an id that it does not know, and forgets it too", async (stage) => {
    const { replicaId } = stage.fixture.spec({ kind: "serves" });
    await stage.driver.stop(replicaId, { graceMs: 0 });
    await stage.driver.forget(replicaId);
  });

  promise("stops once, however often it is asked to", async (stage) => {
    const spec = stage.fixture.spec({ kind: "serves" });
    await stage.driver.start(spec, live());
    await stage.ready(spec.replicaId);
    const stop = (): Promise<void> => stage.driver.stop(spec.replicaId, { graceMs: waitMs });
    await Promise.all([stop(), stop()]);
    await stop();
    assert.deepEqual(stage.kinds(spec.replicaId), ["started", "exited"]);
  });

  promise("ends by force what does not end in time", async (stage) => {
    const spec = stage.fixture.spec({ kind: "ignores_stop" });
    await stage.driver.start(spec, live());
    await stage.ready(spec.replicaId);
    await stage.driver.stop(spec.replicaId, { graceMs: 50 });
    const exited = await stage.told("exited", spec.replicaId);
    assert.match(exited.reason, /by force/);
  });

  promise("shortens the grace when it is asked again with less", async (stage) => {
    const spec = stage.fixture.spec({ kind: "ignores_stop" });
    await stage.driver.start(spec, live());
    await stage.ready(spec.replicaId);
    const patient = stage.driver.stop(spec.replicaId, { graceMs: 3_600_000 });
    await stage.driver.stop(spec.replicaId, { graceMs: 10 });
    await patient;
  });

  promise(
    "ends a start that is stopped meanwhile: it is refused, or it ran and has exited",
    async (stage) => {
      const spec = stage.fixture.spec({ kind: "serves" });
      const start = stage.driver.start(spec, live()).then(
        () => "ran",
        (error: unknown) => {
          assert.ok(error instanceof StartRefused);
          return "refused";
        },
      );
      await stage.driver.stop(spec.replicaId, { graceMs: waitMs });
      const isTold = stage.kinds(spec.replicaId).includes("exited");
      assert.equal(isTold, (await start) === "ran");
      assert.ok((await stage.driver.list()).every(({ state }) => state === "exited"));
    },
  );

  promise("leaves a running replica alone when told to forget it", async (stage) => {
    const spec = stage.fixture.spec({ kind: "serves" });
    await stage.driver.start(spec, live());
    await stage.ready(spec.replicaId);
    await stage.driver.forget(spec.replicaId);
    assert.equal((await stage.driver.list())[0]?.state, "running");
    await stage.driver.stop(spec.replicaId, { graceMs: waitMs });
    await stage.driver.forget(spec.replicaId);
    assert.deepEqual(await stage.driver.list(), []);
  });
}

function adoptionPromises(promise: Promised): void {
  promise(
    "adopts what runs: it is listed as it was, nothing is told or printed twice, and its end is told",
    async (stage) => {
      const spec = stage.fixture.spec({ kind: "serves", lines: ["one", "two"] });
      await stage.driver.start(spec, live());
      await stage.ready(spec.replicaId);
      await stage.until(() => stage.taken.length === 2);
      const before = await stage.driver.list();
      await stage.reopen();
      const after = await stage.driver.list();
      assert.deepEqual(untimed(after), untimed(before));
      for (const [index, { ranMs }] of after.entries())
        assert.ok((ranMs ?? 0) >= (before[index]?.ranMs ?? 0));
      await stage.driver.start(spec, live());
      await stage.driver.stop(spec.replicaId, { graceMs: waitMs });
      assert.deepEqual(stage.kinds(spec.replicaId), ["started", "exited"]);
      assert.deepEqual(
        stage.taken.map(({ text }) => text),
        ["one", "two"],
      );
    },
  );

  promise(
    "tells the end and the last lines of what ended while nobody watched, once",
    async (stage) => {
      const texts = Array.from({ length: 500 }, (_, index) => `line ${index}`);
      const spec = stage.fixture.spec({
        kind: "exits",
        exitCode: 4,
        output: Buffer.from(`${texts.join("\n")}\n`),
      });
      await stage.driver.start(spec, live());
      await stage.reopen();
      const exited = await stage.told("exited", spec.replicaId);
      assert.equal(exited.exitCode, 4);
      await stage.reopen();
      const [gone] = await stage.driver.list();
      assert.equal(gone?.state, "exited");
      assert.equal(gone.reason, exited.reason);
      assert.deepEqual(await stage.allLines(spec.replicaId), texts);
      assert.equal(stage.kinds(spec.replicaId).filter((kind) => kind === "exited").length, 1);
    },
  );
}

function measuringPromises(promise: Promised): void {
  promise("measures what runs, and nothing that has ended", async (stage) => {
    const spec = stage.fixture.spec({ kind: "serves" });
    await stage.driver.start(spec, live());
    await stage.ready(spec.replicaId);
    const used = (await stage.driver.usage()).get(spec.replicaId);
    assert.ok(used !== undefined && used.cpuSeconds >= 0 && used.memoryBytes >= 0);
    assert.equal(stage.driver.outage(), null, "its backend answers");
    await stage.driver.stop(spec.replicaId, { graceMs: waitMs });
    assert.deepEqual([...(await stage.driver.usage()).keys()], []);
  });
}

function storagePromises(promise: Promised): void {
  promise("removes the storages that are gone, and no others", async (stage) => {
    const kept = { ...stage.fixture.spec({ kind: "serves" }), storage: "p-0000000a" };
    const gone = { ...stage.fixture.spec({ kind: "serves" }), storage: "p-0000000b" };
    await Promise.all([kept, gone].map((spec) => stage.driver.start(spec, live())));
    await Promise.all([kept, gone].map(({ replicaId }) => stage.ready(replicaId)));
    await stage.driver.stop(gone.replicaId, { graceMs: waitMs });
    const isOurs = (name: string): boolean => [kept.storage, gone.storage].includes(name);
    const collect = async (chosen: readonly string[], signal = live()): Promise<string[]> => {
      let found: string[] = [];
      await stage.driver.collectStorage((storages) => {
        found = storages.filter(isOurs).toSorted();
        return Promise.resolve(chosen);
      }, signal);
      return found;
    };
    assert.deepEqual(await collect([]), [kept.storage, gone.storage]);
    assert.deepEqual(await collect([gone.storage, "p-0000000c"]), [kept.storage, gone.storage]);
    assert.deepEqual(await collect([]), [kept.storage]);
  });
}

function pendingPromises(promise: Promised): void {
  const begin = async (stage: Stage): Promise<ReplicaId> => {
    const { pending } = stage.fixture.conditions ?? {};
    assert.ok(pending, "the fixture can let a replica wait");
    const spec = pending.spec();
    await stage.driver.start(spec, live());
    const [listed] = await stage.driver.list();
    assert.deepEqual([listed?.state, listed?.address], ["pending", null]);
    assert.deepEqual(stage.kinds(spec.replicaId), [], "it has not started");
    assert.equal((await stage.driver.usage()).has(spec.replicaId), false, "it uses nothing");
    return spec.replicaId;
  };

  promise("lists what waits as pending, adopts it, and tells when it starts", async (stage) => {
    const replicaId = await begin(stage);
    await stage.reopen();
    assert.equal((await stage.driver.list())[0]?.state, "pending");
    stage.fixture.conditions?.pending?.proceed(replicaId);
    const started = await stage.ready(replicaId);
    const [listed] = await stage.driver.list();
    assert.deepEqual([listed?.state, listed?.address], ["running", started.address]);
    await stage.driver.stop(replicaId, { graceMs: waitMs });
    assert.deepEqual(stage.kinds(replicaId), ["started", "exited"]);
  });

  promise("stops what waits, which then never starts", async (stage) => {
    const replicaId = await begin(stage);
    await stage.driver.stop(replicaId, { graceMs: waitMs });
    stage.fixture.conditions?.pending?.proceed(replicaId);
    assert.deepEqual(stage.kinds(replicaId), ["exited"]);
    assert.ok((await stage.driver.list()).every(({ state }) => state === "exited"));
  });
}

function outagePromises(promise: Promised): void {
  promise("tells an outage, starts nothing in it, and has lost nothing after it", async (stage) => {
    const { outage } = stage.fixture.conditions ?? {};
    assert.ok(outage, "the fixture can let the backend answer nothing");
    const runs = stage.fixture.spec({ kind: "serves" });
    const refused = stage.fixture.spec({ kind: "serves" });
    await stage.driver.start(runs, live());
    await stage.ready(runs.replicaId);
    outage.begin();
    const now = stage.driver.outage();
    assert.ok(now !== null && now.sinceMs <= systemClock.monotonicMs());
    assert.match(now.reason, /\.$/, "the reason is a sentence");
    await assert.rejects(stage.driver.start(refused, live()), {
      name: "StartRefused",
      kind: "no_capacity",
    });
    await assert.rejects(stage.driver.list());
    await assert.rejects(stage.driver.usage());
    outage.end();
    assert.equal(stage.driver.outage(), null);
    const listed = await stage.driver.list();
    assert.deepEqual(
      listed.map(({ replicaId, state }) => [replicaId, state]),
      [[runs.replicaId, "running"]],
    );
    assert.deepEqual(stage.kinds(runs.replicaId), ["started"], "nothing of it was told as ended");
  });
}

type Told<Kind extends ReplicaEvent["kind"]> = Extract<ReplicaEvent, { kind: Kind }>;

/** One test: a fixture, the open driver on it, and everything that the driver reported. */
class Stage implements ReplicaSink {
  readonly fixture: ConformanceFixture;
  readonly events: ReplicaEvent[] = [];
  readonly taken: ReplicaLine[] = [];
  /** The number of batches of lines received. */
  handedOver = 0;
  storing: () => Promise<void> = () => Promise.resolve();
  driver: Driver;
  readonly #waiting = new Set<() => void>();

  static async open(makeFixture: () => Promise<ConformanceFixture>): Promise<Stage> {
    const stage = new Stage(await makeFixture());
    await stage.driver.open(stage);
    return stage;
  }

  private constructor(fixture: ConformanceFixture) {
    this.fixture = fixture;
    this.driver = fixture.driver();
  }

  event(event: ReplicaEvent): void {
    this.events.push(event);
    this.#changed();
  }

  async lines(lines: readonly ReplicaLine[]): Promise<void> {
    this.handedOver++;
    this.taken.push(...lines);
    this.#changed();
    await this.storing();
  }

  kinds(replicaId: ReplicaId): string[] {
    return this.events.filter((event) => event.replicaId === replicaId).map(({ kind }) => kind);
  }

  /** The lines of an exited replica, which is forgotten with this. */
  async allLines(replicaId: ReplicaId): Promise<readonly string[]> {
    await this.driver.forget(replicaId);
    return this.taken.filter((line) => line.replicaId === replicaId).map(({ text }) => text);
  }

  async told<Kind extends ReplicaEvent["kind"]>(
    kind: Kind,
    replicaId: ReplicaId,
  ): Promise<Told<Kind>> {
    const find = (): ReplicaEvent | undefined =>
      this.events.find((event) => event.kind === kind && event.replicaId === replicaId);
    await this.until(() => find() !== undefined || this.kinds(replicaId).includes("exited"));
    const found = find();
    assert.ok(found, `${kind} was told, not only: ${JSON.stringify(this.events)}`);
    return found as Told<Kind>;
  }

  /** Waits until the replica is reported as started and accepts calls. */
  async ready(replicaId: ReplicaId): Promise<Told<"started">> {
    const started = await this.told("started", replicaId);
    const endsAtMs = systemClock.monotonicMs() + waitMs;
    while (!(await this.fixture.isReady(started.address))) {
      assert.ok(systemClock.monotonicMs() < endsAtMs, `it became ready within ${waitMs} ms`);
      await systemClock.sleep(readyPauseMs);
    }
    return started;
  }

  async until(condition: () => boolean): Promise<void> {
    const late = new AbortController();
    const cancel = systemClock.after(waitMs, () =>
      late.abort(new Error(`within ${waitMs} ms it did not come true: ${condition.toString()}`)),
    );
    try {
      while (!condition()) {
        late.signal.throwIfAborted();
        const changed = Promise.withResolvers<void>();
        const onAbort = (): void => changed.resolve();
        late.signal.addEventListener("abort", onAbort, { once: true });
        this.#waiting.add(changed.resolve);
        await changed.promise;
        late.signal.removeEventListener("abort", onAbort);
      }
    } finally {
      cancel();
    }
  }

  /** Closes and reopens the driver, as a clean restart of the platform does. */
  async reopen(): Promise<void> {
    await this.driver.close();
    this.driver = this.fixture.driver();
    await this.driver.open(this);
  }

  /** Stops and forgets all replicas. */
  async end(): Promise<void> {
    for (const { replicaId } of await this.driver.list()) {
      await this.driver.stop(replicaId, { graceMs: 0 });
      await this.driver.forget(replicaId);
    }
    await this.driver.close();
  }

  #changed(): void {
    for (const resume of this.#waiting) resume();
    this.#waiting.clear();
  }
}

/** The same replicas with a running time of zero. */
function untimed(owned: readonly OwnedReplica[]): OwnedReplica[] {
  return owned.map((one) => ({ ...one, ranMs: 0 }));
}
