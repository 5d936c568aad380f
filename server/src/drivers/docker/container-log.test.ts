// The log of a container as the engine may give it, read in every order: each line is delivered
// once, unless the engine has deleted it, and the times give the order.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import fc from "fast-check";
import { droppedText } from "#drivers/stored-lines.ts";
import type { ReplicaLine } from "#drivers/driver.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { EngineLog, type EngineLogOptions, type EngineMessage } from "#test/support/engine-log.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { ContainerFile } from "./container-file.ts";
import { ContainerLog } from "./container-log.ts";
import { LogFrames } from "./log-frames.ts";

type Stream = EngineMessage["stream"];

type Step =
  /** `lines` of one stream, `apartUs` apart. */
  | {
      readonly kind: "print";
      readonly stream: Stream;
      readonly lines: number;
      readonly apartUs: number;
    }
  /** A line of several parts, of which the last follows with what the stream prints next. */
  | { readonly kind: "long"; readonly stream: Stream }
  /** A line that is in the log only after what the other stream prints in three seconds. */
  | { readonly kind: "stray"; readonly stream: Stream }
  | { readonly kind: "wait"; readonly ms: number }
  /**
   * The engine deletes its oldest messages, or ends and begins anew; the platform is stopped or
   * killed.
   */
  | { readonly kind: "delete" | "break" | "stop" | "kill" };

const million = 1_000_000n;
/** So that some thousand lines are more than one batch. */
const padding = ".".repeat(150);
const stream = fc.constantFrom<Stream>("stdout", "stderr");
const printing = fc.record({
  kind: fc.constant("print" as const),
  stream,
  lines: fc.constantFrom(1, 300, 3_000, 6_000),
  apartUs: fc.constantFrom(1, 40, 900),
});
const waiting = fc.record({
  kind: fc.constant("wait" as const),
  ms: fc.constantFrom(1, 300, 2_500, 6_000),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: printing },
  { weight: 5, arbitrary: waiting },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constantFrom("long" as const, "stray" as const), stream }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom("break" as const, "stop" as const, "kill" as const),
    }),
  },
);
const deleting: fc.Arbitrary<Step> = fc.constant({ kind: "delete" });

/** `lineMs`: how long a line takes to be stored. */
type StageOptions = Omit<EngineLogOptions, "clock"> & { readonly lineMs: number };

/** Notes how many lines were stored when it was written. */
class NotedFile extends ContainerFile {
  readonly #onKeep: () => void;

  constructor(path: string, onKeep: () => void) {
    super(path);
    this.#onKeep = onKeep;
  }

  override keep(more: Parameters<ContainerFile["keep"]>[0]): void {
    super.keep(more);
    this.#onKeep();
  }
}

/** An app that prints, and a platform that stores slowly. */
class Stage {
  readonly clock = new VirtualClock();
  readonly stored: ReplicaLine[] = [];
  batches = 0;
  readonly #path: string;
  readonly #log: EngineLog;
  readonly #lineMs: number;
  readonly #deleted = new Set<number>();
  /** The lines that may be stored twice, since the platform was killed. */
  readonly #repeated = new Set<number>();
  #reader: ContainerLog;
  #printed = 0;
  #at = BigInt(VirtualClock.beginMs) * million;
  #storedAtKeep = 0;
  /** What a stream has begun to print, and is not in the log yet. */
  readonly #begun: Record<Stream, EngineMessage | null> = { stdout: null, stderr: null };

  constructor(path: string, { lineMs, ...options }: StageOptions) {
    this.#path = path;
    this.#lineMs = lineMs;
    this.#log = new EngineLog({ ...options, clock: this.clock });
    this.#reader = this.#read();
  }

  async take(one: Step): Promise<void> {
    if (one.kind === "print") await this.print(one);
    else if (one.kind === "long") await this.#long(one.stream);
    else if (one.kind === "stray") await this.#stray(one.stream);
    else if (one.kind === "wait") await this.clock.advance(one.ms);
    else if (one.kind === "delete") this.#delete();
    else if (one.kind === "break") this.#log.breakOff();
    else await this.restart(one.kind === "kill");
  }

  async print(given: {
    readonly stream: Stream;
    readonly lines: number;
    readonly apartUs: number;
  }): Promise<void> {
    const { stream, lines, apartUs } = given;
    this.#finish(stream);
    const messages = Array.from({ length: lines }, () => {
      return { stream, at: this.#next(apartUs), text: `${this.#printed++} ${padding}\n` };
    });
    await this.#add(messages);
  }

  async restart(isKilled: boolean): Promise<void> {
    const kept = isKilled ? readFileSync(this.#path) : null;
    const storedAtKeep = this.#storedAtKeep;
    await this.#until(this.#reader.close());
    if (kept !== null) {
      writeFileSync(this.#path, kept);
      for (const { text } of this.stored.slice(storedAtKeep))
        this.#repeated.add(Number.parseInt(text));
    }
    this.#reader = this.#read();
  }

  /** The container exits, and all is read. */
  async end(): Promise<void> {
    this.#finish("stdout");
    this.#finish("stderr");
    this.#log.exit();
    assert.equal(await this.#until(this.#reader.end()), true);
    await this.#until(this.#reader.close());
    assert.deepEqual(new ContainerFile(this.#path).parts, []);
  }

  check(): void {
    const lines = this.stored.filter(({ text }) => text !== droppedText(null));
    const times = new Map<number, number>();
    for (const { text } of lines)
      times.set(Number.parseInt(text), (times.get(Number.parseInt(text)) ?? 0) + 1);
    for (let number = 0; number < this.#printed; number++) {
      const count = times.get(number) ?? 0;
      assert.ok(
        count > 0 || this.#deleted.has(number),
        `line ${number} of ${this.#printed} is missing`,
      );
      assert.ok(count < 2 || this.#repeated.has(number), `line ${number} is there ${count} times`);
    }
    for (const name of ["stdout", "stderr"] as const) {
      const numbers = lines
        .filter((line) => line.stream === name)
        .toSorted((one, other) => one.at - other.at)
        .map(({ text }) => Number.parseInt(text))
        .filter((number) => !this.#repeated.has(number));
      const wrong = numbers.findIndex((number, index) => number < (numbers[index - 1] ?? 0));
      assert.equal(
        wrong,
        -1,
        `${name} in order: ${numbers.slice(Math.max(0, wrong - 3), wrong + 3).join(" ")}`,
      );
    }
    // The beginning of one may be deleted.
    const long = lines.filter(
      ({ text }) => text.includes("x") && (this.#deleted.size === 0 || /^\d/.test(text)),
    );
    const cut = long.find(
      ({ text }) => !/^\d+ x+y$/.test(text) && !this.#deleted.has(Number.parseInt(text)),
    );
    assert.equal(cut?.text.slice(0, 20), undefined, "a line is cut");
  }

  /** The place of a line among those that were stored. */
  positionOf(number: number): number {
    return this.stored.findIndex(({ text }) => Number.parseInt(text) === number);
  }

  #read(): ContainerLog {
    const file = new NotedFile(this.#path, () => (this.#storedAtKeep = this.stored.length));
    const reader = new ContainerLog({
      replicaId: "r" as ReplicaId,
      hasFrames: false,
      containerId: "c",
      engine: this.#log.engine,
      file,
      clock: this.clock,
      onFault: (error) => assert.match(String(error), /restarted/),
      lines: async (lines) => {
        await this.clock.sleep(lines.length * this.#lineMs);
        this.stored.push(...lines);
        this.batches++;
      },
    });
    file.keep({});
    reader.follow();
    return reader;
  }

  async #until<Answer>(promise: Promise<Answer>): Promise<Answer> {
    let isDone = false;
    void promise.finally(() => (isDone = true)).catch(() => undefined);
    for (let count = 0; !isDone && count < 5_000; count++) await this.clock.advance(100);
    assert.ok(isDone, "it ends");
    return promise;
  }

  #next(apartUs: number): bigint {
    const now = BigInt(this.clock.now()) * million;
    this.#at = (this.#at > now ? this.#at : now) + BigInt(apartUs) * 1000n;
    return this.#at;
  }

  /** When they were printed, and not before that. */
  async #add(messages: readonly EngineMessage[]): Promise<void> {
    await this.clock.advance(Math.max(0, Number(this.#at / million) + 1 - this.clock.now()));
    this.#log.add(messages);
  }

  async #long(stream: Stream): Promise<void> {
    this.#finish(stream);
    const at = this.#next(5);
    const text = `${this.#printed++} `.padEnd(16_384, "x");
    await this.#add([{ stream, at, text }]);
    this.#begun[stream] = { stream, at, text: "xy\n" };
  }

  async #stray(stream: Stream): Promise<void> {
    this.#finish(stream);
    const message = { stream, at: this.#next(5), text: `${this.#printed++}\n` };
    await this.#add([]);
    this.#begun[stream] = message;
    this.clock.after(3_000, () => {
      if (this.#begun[stream] === message) this.#finish(stream);
    });
  }

  #finish(name: Stream): void {
    const begun = this.#begun[name];
    this.#begun[name] = null;
    if (begun !== null) this.#log.add([begun]);
  }

  #delete(): void {
    for (const { text } of this.#log.deleteAllBut(2_000)) this.#deleted.add(Number.parseInt(text));
  }
}

const given = fc.record({
  isNewer: fc.boolean(),
  messagesPerChunk: fc.constantFrom(7, 500),
  answerMs: fc.constantFrom(0, 400),
  lineMs: fc.constantFrom(0.05, 1),
});

async function holds(t: TestContext, steps: fc.Arbitrary<Step>): Promise<void> {
  const folder = temporaryFolder(t, "container-log");
  let count = 0;
  const property = fc.asyncProperty(
    given,
    fc.array(steps, { maxLength: 16 }),
    async (options, all) => {
      const stage = new Stage(join(folder, String(count++)), options);
      for (const one of all) await stage.take(one);
      await stage.end();
      stage.check();
    },
  );
  await fc.assert(property, { numRuns: 40 });
}

test("each line is delivered once, whatever is skipped or read anew", async (t) => {
  await holds(t, step);
});

test("each line is delivered once or deleted by the engine, whatever is skipped or read anew", async (t) => {
  await holds(t, fc.oneof({ weight: 10, arbitrary: step }, { weight: 1, arbitrary: deleting }));
});

/** Two seconds for 2,000 lines. */
const slow = { isNewer: false, messagesPerChunk: 500, answerMs: 0, lineMs: 1 };
const flood: Step = { kind: "print", stream: "stdout", lines: 6_000, apartUs: 1 };
const seconds = (count: number): Step => ({ kind: "wait", ms: count * 1_000 });

async function stageAfter(t: TestContext, steps: readonly Step[]): Promise<Stage> {
  const stage = new Stage(join(temporaryFolder(t, "container-log"), "file"), slow);
  for (const one of steps) await stage.take(one);
  return stage;
}

test("when lines wait for long, the newest come first", async (t) => {
  const stage = await stageAfter(t, [flood, seconds(20)]);
  await stage.end();
  stage.check();
  assert.ok(stage.positionOf(5_999) < stage.positionOf(4_999), "the newest line before older ones");
});

test("messages that come one by one while lines are stored are stored together", async (t) => {
  const options = { isNewer: false, messagesPerChunk: 1, answerMs: 0, lineMs: 0.1 };
  const stage = new Stage(join(temporaryFolder(t, "container-log"), "file"), options);
  for (const one of [flood, seconds(2)]) await stage.take(one);
  await stage.end();
  stage.check();
  assert.ok(stage.batches < 100, `${stage.batches} batches`);
});

test("while an app prints without end, its newest lines are stored", async (t) => {
  const path = join(temporaryFolder(t, "container-log"), "file");
  // More is printed while the engine answers than is asked of it.
  const stage = new Stage(path, { ...slow, answerMs: 450, lineMs: 0.1 });
  const more: Step = { kind: "print", stream: "stdout", lines: 5_000, apartUs: 1 };
  for (let count = 0; count < 50; count++) {
    await stage.take(more);
    await stage.take({ kind: "wait", ms: 95 });
  }
  const newest = stage.stored.reduce((last, { text }) => Math.max(last, Number.parseInt(text)), 0);
  assert.ok(newest > 120_000, `line ${newest} of 250,000`);
  await stage.end();
  stage.check();
});

test("an error of the engine in place of messages is none of the container", () => {
  const frame = (type: number, text: string): Buffer => {
    const head = Buffer.alloc(8);
    head[0] = type;
    head.writeUInt32BE(text.length, 4);
    return Buffer.concat([head, Buffer.from(text)]);
  };
  const line = frame(1, "2026-01-01T00:00:00.000000001Z line\n");
  const error = frame(3, "Error grabbing logs: unexpected end\n");
  const messages = new LogFrames({ hasTimes: true }).take(Buffer.concat([line, error, line]));
  assert.deepEqual(
    messages.map(({ stream, bytes }) => [stream, bytes.toString()]),
    [
      ["stdout", "line\n"],
      ["stdout", "line\n"],
    ],
  );
});

test("a long line that has not ended when newer output comes first stays whole", async (t) => {
  const long: Step = { kind: "long", stream: "stderr" };
  const rest: Step = { kind: "print", stream: "stderr", lines: 1, apartUs: 1 };
  const stage = await stageAfter(t, [long, flood, seconds(60), rest, seconds(1)]);
  stage.check();
  await stage.end();
  stage.check();
});

test("a message that the engine logs after later ones of the other stream is delivered after a stop", async (t) => {
  const stray: Step = { kind: "stray", stream: "stdout" };
  const later: Step = { kind: "print", stream: "stderr", lines: 2, apartUs: 1 };
  const stage = await stageAfter(t, [
    stray,
    later,
    seconds(1),
    { kind: "stop" },
    seconds(4),
    { kind: "stop" },
  ]);
  assert.equal(stage.stored.length, 3);
  stage.check();
  await stage.end();
});

test("lines that the engine deleted before they were read are told of", async (t) => {
  const stage = await stageAfter(t, [flood, seconds(4.5), { kind: "delete" }, seconds(20)]);
  await stage.end();
  stage.check();
  const dropped = stage.stored.filter(({ text }) => text === droppedText(null));
  assert.equal(dropped.length, 1);
});

test("of the parts that wait, the oldest is dropped", async (t) => {
  const path = join(temporaryFolder(t, "container-log"), "file");
  // The parts have later times, so that they wait; they are empty.
  const parts = Array.from({ length: 100 }, (_, index) => {
    const to = `2026-01-01T01:00:00.${String(index).padStart(3, "0")}999999Z`;
    return { position: "", reached: { stdout: to, stderr: to }, to };
  });
  new ContainerFile(path).keep({ parts });
  const stage = new Stage(path, slow);
  for (const one of [flood, seconds(4.5)]) await stage.take(one);
  const kept = new ContainerFile(path).parts;
  assert.equal(kept.length, 100);
  assert.equal(kept[0]?.to, parts[1]?.to);
  assert.equal(stage.stored.filter(({ text }) => text === droppedText(null)).length, 1);
  await stage.end();
  stage.check();
});

test("what is kept can be read by an older version, and what that keeps", (t) => {
  const path = join(temporaryFolder(t, "container-log"), "file");
  const reach = { position: "2026-01-01T00:00:20.000000009Z", reached: { stdout: "", stderr: "" } };
  const part = { ...reach, to: "2026-01-01T00:00:30.999999999Z" };
  new ContainerFile(path).keep({ ...reach, parts: [part] });
  // Older versions write what they have read with what is new.
  const kept = JSON.parse(readFileSync(path, "utf8")) as typeof reach;
  assert.equal(kept.position, reach.position);
  assert.deepEqual(kept.reached, reach.reached);
  const { parts, reach: read } = new ContainerFile(path);
  assert.deepEqual(read, reach);
  assert.deepEqual(parts, [part]);
  writeFileSync(path, JSON.stringify(reach));
  assert.deepEqual(new ContainerFile(path).parts, []);
});
