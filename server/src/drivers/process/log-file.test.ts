// An output file, written and read in every order: each line is delivered once or counted, and the
// times give their order.
import assert from "node:assert/strict";
import { appendFileSync, utimesSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { temporaryFolder } from "#test/support/folder.ts";
import { LogFile, type LogPiece } from "./log-file.ts";
import { keptPosition, type KeptPosition } from "./log-position.ts";

type Step =
  | {
      readonly kind: "write";
      readonly bytes: number;
      readonly width: number;
      readonly isHalf: boolean;
    }
  /**
   * `isBehind`: storing takes long, while the app goes on. `turns`: it ends in the midst of
   * `bound`.
   */
  | {
      readonly kind: "read";
      readonly isBehind: boolean;
      readonly bytes: number;
      readonly turns: number | null;
    }
  | { readonly kind: "wait" | "restart" };

function stepOf(widths: readonly number[], floods: readonly Step[]): fc.Arbitrary<Step> {
  const written = {
    kind: fc.constant("write" as const),
    bytes: fc.constantFrom(1_000, 300_000, 1_500_000),
    width: fc.constantFrom(...widths),
    isHalf: fc.boolean(),
  };
  const read = {
    kind: fc.constant("read" as const),
    isBehind: fc.boolean(),
    bytes: fc.constantFrom(0, 1_500_000),
    turns: fc.constantFrom(null, 0, 1, 2, 3),
  };
  const others: readonly Step[] = [{ kind: "wait" }, { kind: "restart" }];
  return fc.oneof(
    { weight: 4, arbitrary: fc.record(written) },
    { weight: 5, arbitrary: fc.record(read) },
    { weight: 4, arbitrary: fc.constantFrom(...others, ...floods) },
  );
}

/** Long after everything was written. */
const late = (): number => Date.now() + 60_000;

class Reader {
  readonly #path: string;
  #file: LogFile;
  #written = 0;
  #half = "";
  readonly #delivered: { readonly at: number; readonly number: number }[] = [];
  #dropped = 0;

  static async open(path: string): Promise<Reader> {
    return new Reader(path, await LogFile.open(path, { position: null, hasFrames: false }));
  }

  private constructor(path: string, file: LogFile) {
    this.#path = path;
    this.#file = file;
  }

  async take(given: Step): Promise<void> {
    if (given.kind === "write") this.#write(given);
    if (given.kind === "wait") await this.#file.bound({ isEnd: false, now: late() });
    if (given.kind === "restart") await this.#restart();
    if (given.kind !== "read") return;
    await this.#file.mark();
    const piece = await this.#file.read(false);
    if (given.bytes > 0) this.#write({ bytes: given.bytes, width: 300, isHalf: false });
    const bounding = this.#file.bound({ isEnd: false, now: given.isBehind ? late() : Date.now() });
    if (given.turns === null) await bounding;
    for (let turn = 0; turn < (given.turns ?? 0); turn++)
      await new Promise((resolve) => setImmediate(resolve));
    if (piece !== null) this.#store(piece);
    await bounding;
  }

  /** `isEnd`: the replica is gone, of which not everything is read. */
  async readAll(isEnd: boolean): Promise<void> {
    if (this.#half !== "") this.#write({ bytes: 1, width: 300, isHalf: false });
    for (let count = 0; ; count++) {
      if (count > 3000) throw new Error(JSON.stringify(this.#file.position));
      await this.#file.bound({ isEnd, now: Date.now() });
      const piece = await this.#file.read(isEnd);
      if (piece === null) return;
      this.#store(piece);
    }
  }

  /**
   * What the app wrote is all there: delivered, or counted. Returns how many lines were only
   * counted.
   */
  async end(): Promise<number> {
    await this.readAll(true);
    await this.#file.close();
    const numbers = this.#delivered.map(({ number }) => number);
    assert.equal(new Set(numbers).size, numbers.length, "no line is delivered twice");
    assert.equal(
      numbers.length + this.#dropped,
      this.#written,
      "a line that is not delivered is counted",
    );
    const byTime = this.#delivered.toSorted((one, other) => one.at - other.at);
    const wrong = byTime.findIndex(
      ({ number }, index) => index > 0 && number < (byTime[index - 1]?.number ?? 0),
    );
    assert.equal(
      wrong,
      -1,
      `the times give the order: ${JSON.stringify(byTime.slice(Math.max(0, wrong - 2), wrong + 3))}`,
    );
    return this.#dropped;
  }

  #write({
    bytes,
    width,
    isHalf,
  }: {
    readonly bytes: number;
    readonly width: number;
    readonly isHalf: boolean;
  }): void {
    let text = this.#half;
    if (this.#half === "") text += this.#next(width);
    while (text.length < bytes) text += `\n${this.#next(width)}`;
    this.#half = isHalf ? text.slice(-5) : "";
    appendFileSync(this.#path, isHalf ? text.slice(0, -5) : `${text}\n`);
  }

  #next(width: number): string {
    return String(this.#written++).padEnd(width, "x");
  }

  #store(piece: LogPiece): void {
    this.#dropped += piece.dropped;
    for (const { text, at } of piece.lines)
      this.#delivered.push({ at: Math.round(at), number: Number.parseInt(text) });
    this.#file.stored(piece);
    this.#file.giveBack();
  }

  async #restart(): Promise<void> {
    const kept = JSON.parse(JSON.stringify(keptPosition(this.#file.position))) as KeptPosition;
    await this.#file.close();
    this.#file = await LogFile.open(this.#path, { position: kept, hasFrames: false });
  }
}

test("each line is delivered once, whatever is skipped or read anew", async (t) => {
  const folder = temporaryFolder(t, "log-file");
  let count = 0;
  const property = fc.asyncProperty(
    fc.array(stepOf([10, 300], []), { maxLength: 14 }),
    async (steps) => {
      const reader = await Reader.open(join(folder, String(count++)));
      for (const one of steps) await reader.take(one);
      await reader.readAll(false);
      assert.equal(await reader.end(), 0);
    },
  );
  await fc.assert(property, { numRuns: 40 });
});

test("each line is delivered once or counted, whatever is dropped", async (t) => {
  const folder = temporaryFolder(t, "log-file");
  let count = 0;
  // More than is kept of what waits. Narrower lines than these are not counted exactly.
  const flood = { kind: "write", bytes: 70_000_000, width: 40_000, isHalf: false } as const;
  const property = fc.asyncProperty(
    fc.array(stepOf([80, 20_000], [flood]), { maxLength: 10 }),
    async (steps) => {
      const reader = await Reader.open(join(folder, String(count++)));
      for (const one of steps) await reader.take(one);
      await reader.end();
    },
  );
  await fc.assert(property, { numRuns: 20 });
});

/**
 * What is delivered until nothing is left, with the number of lines that were dropped before each
 * piece.
 */
async function allOf(
  file: LogFile,
): Promise<{ readonly pieces: readonly LogPiece[]; readonly texts: readonly string[] }> {
  const pieces: LogPiece[] = [];
  for (let piece = await file.read(false); piece !== null; piece = await file.read(false)) {
    pieces.push(piece);
    file.stored(piece);
  }
  return { pieces, texts: pieces.flatMap(({ lines }) => lines.map(({ text }) => text)) };
}

test("skipped lines have times of after the silence before them", async (t) => {
  const path = join(temporaryFolder(t, "log-file"), "stdout");
  const file = await LogFile.open(path, { position: null, hasFrames: false });
  t.after(() => file.close());
  appendFileSync(path, "before\n");
  const hourAgo = Date.now() - 3_600_000;
  utimesSync(path, new Date(), new Date(hourAgo));
  assert.deepEqual((await allOf(file)).texts, ["before"]);
  const at = Date.now();
  appendFileSync(path, `${"x".repeat(99)}\n`.repeat(20_000));
  await file.mark();
  await file.bound({ isEnd: false, now: late() });
  const { pieces } = await allOf(file);
  const lines = pieces.flatMap((piece) => piece.lines);
  assert.equal(lines.length, 20_000);
  assert.equal(pieces[0]?.wasSkipped, false);
  assert.equal(pieces[1]?.wasSkipped, true);
  const earliest = Math.min(...pieces.map((piece) => piece.lines[0]?.at ?? 0));
  assert.ok(earliest > at - 1_000, `a line of ${at} has the time ${earliest}`);
});

test("a line that is still being written is not cut", async (t) => {
  const path = join(temporaryFolder(t, "log-file"), "stdout");
  const file = await LogFile.open(path, { position: null, hasFrames: false });
  t.after(() => file.close());
  // Pieces of that few bytes, so that a line is longer than what is read in order.
  appendFileSync(path, "x\n".repeat(5_000));
  assert.equal((await allOf(file)).texts.length, 5_000);
  appendFileSync(path, "y".repeat(40_000));
  await file.bound({ isEnd: false, now: late() });
  assert.deepEqual((await allOf(file)).texts, []);
  appendFileSync(path, "z\n");
  await file.bound({ isEnd: false, now: late() });
  assert.deepEqual((await allOf(file)).texts, [`${"y".repeat(40_000)}z`]);
});

test("when the app ends, only its last lines are read, however new the others are", async (t) => {
  const path = join(temporaryFolder(t, "log-file"), "stdout");
  const file = await LogFile.open(path, { position: null, hasFrames: false });
  t.after(() => file.close());
  // Long enough to be counted exactly.
  const lines = Array.from({ length: 25_000 }, (_, index) => String(index).padEnd(70, "x"));
  appendFileSync(path, `${lines.join("\n")}\n`);
  await file.bound({ isEnd: true, now: Date.now() });
  const { pieces, texts } = await allOf(file);
  assert.equal(texts.length, 10_000);
  assert.ok(texts.includes(lines.at(-1) ?? ""));
  assert.equal(
    pieces.reduce((sum, { dropped }) => sum + dropped, 0),
    15_000,
  );
});

test("a position of an older version is read on: what was dropped is counted once", async (t) => {
  const path = join(temporaryFolder(t, "log-file"), "stdout");
  appendFileSync(path, "a\nb\nc\nd\ne\nf\n");
  const position = { offset: 2, isCutting: false, gap: { from: 4, to: 8, lines: 2 } };
  const file = await LogFile.open(path, { position, hasFrames: false });
  t.after(() => file.close());
  const { pieces, texts } = await allOf(file);
  assert.deepEqual(texts.toSorted(), ["b", "e", "f"]);
  assert.deepEqual(
    pieces.map(({ dropped }) => dropped).filter((dropped) => dropped > 0),
    [2],
  );
});
