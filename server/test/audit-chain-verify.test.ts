// Whatever is done to a real export of a real chain is found, and the place is named: altered,
// removed, swapped, put in, cut off; also by who computes the hashes anew. The seed of a failure is
// printed by the property.
import assert from "node:assert/strict";
import { before, describe, test } from "node:test";
import fc from "fast-check";
import { auditRetention } from "#audit/chain/audit-retention.ts";
import {
  chainBegin,
  entryLine,
  lineText,
  linkHash,
  linkText,
  type EntryLine,
} from "#audit/export/export-format.ts";
import { parseLine } from "@slipway/cli/src/verify/export-reader.ts";
import { record } from "#audit/record.ts";
import type { Broken, Verdict } from "@slipway/cli/src/verify/verdict.ts";
import { verifyExport } from "@slipway/cli/src/verify/verify-export.ts";
import { systemClock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { removeOld } from "#lib/retention.ts";
import type { Db } from "#store/database.ts";
import { countOf } from "./support/drawn-cases.ts";
import { byPlatform } from "./support/accounts.ts";
import { chainOn, exportChain, testSigner } from "./support/audit-chain.ts";
import type { WithAfter } from "./support/clean-last.ts";
import { testDatabase } from "./support/database.ts";
import "./support/leftovers.ts";

const projectId = "p-00000001" as ProjectId;
const signer = testSigner();
const runs = { numRuns: countOf({ what: "alterations of each kind", complete: 1_500, short: 60 }) };

/** What there may be in an entry. */
const oddChanges = {
  '"\\\u0001\u007f\u2028😀': { old: 1e300, new: 5e-324 },
  "\ue000": { new: [0.1, -0.5, 1e21, 123456789012345680000, -0, 1e-7] },
  "10": { old: { b: null, aa: true, a: [] }, new: {} },
  ["__proto__"]: { new: "x" },
};

async function addEntries(db: Db, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    await record(db, {
      projectId,
      action: "app.update",
      outcome: index % 3 === 0 ? "failure" : "success",
      by:
        index % 2 === 0
          ? byPlatform
          : {
              actor: { type: "person", id: "a", name: "Ada \n ü" },
              request: { id: "r", address: "::1", userAgent: "x/1" },
            },
      ...(index % 4 === 0
        ? {}
        : {
            resource: {
              type: "app",
              ...(index % 4 === 1 ? { id: "" } : { id: `app-${index}`, name: "n" }),
            },
          }),
      ...(index % 5 === 0
        ? {}
        : { changes: index % 5 === 1 ? oddChanges : { cpu: { old: index, new: index + 1 } } }),
      ...(index % 3 === 0 ? { reason: "it failed" } : {}),
    });
  }
}

/** A chain with several checkpoints, and a stub where `isCut`. */
async function makeExport(t: WithAfter, isCut: boolean): Promise<string> {
  const { db } = await testDatabase(t);
  await db.insertInto("projects").values({ id: projectId, name: "chain" }).execute();
  const chain = chainOn(db, signer);
  if (isCut) {
    const old = {
      project_id: projectId,
      action: "app.create",
      outcome: "success",
      actor_type: "person",
    } as const;
    const at = new Date(Date.now() - 3 * 86_400_000);
    await db
      .insertInto("audit_log")
      .values([
        { ...old, at },
        { ...old, at },
        { ...old, at },
      ])
      .execute();
    await chain.checkpoint(projectId);
  }
  for (const count of [1, 7, 3, 4]) {
    await addEntries(db, count);
    await chain.checkpoint(projectId);
  }
  const options = { db, clock: systemClock, signer, retentionOf: () => 2 };
  await removeOld(auditRetention(options), new AbortController().signal);
  return await exportChain(db, signer, projectId);
}

type Keys = Parameters<typeof verifyExport>[1];

/** The bytes come in parts of `partBytes`. */
async function verify(
  text: string | Uint8Array,
  keys: Keys = signer.publicKeys,
  partBytes = 1_000,
): Promise<Verdict> {
  const bytes = Buffer.from(text);
  const parts = async function* (): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < bytes.length; at += partBytes) yield bytes.subarray(at, at + partBytes);
  };
  return await verifyExport(parts(), keys);
}

async function breaks(text: string | Uint8Array, keys?: Keys): Promise<Broken> {
  const verdict = await verify(text, keys);
  assert.equal(verdict.result, "broken", JSON.stringify(verdict));
  return verdict;
}

/**
 * What is not broken in a place must at least not be taken for an export: so it is with its first
 * line.
 */
async function isNoExport(text: string | Uint8Array): Promise<boolean> {
  return (await verify(text)).result === "unverifiable";
}

const linesOf = (text: string): string[] => text.slice(0, -1).split("\n");
const textOf = (lines: readonly string[]): string => lines.map((line) => `${line}\n`).join("");

function entryAt(lines: readonly string[], index: number): EntryLine | null {
  const line = parseLine(lines[index] ?? null);
  return line?.kind === "entry" ? line : null;
}

for (const isCut of [false, true]) {
  describe(
    isCut ? "an export whose oldest entries were removed" : "an export of a whole chain",
    () => {
      let whole = "";
      let lines: string[] = [];
      before(async () => {
        const steps: (() => Promise<void> | void)[] = [];
        whole = await makeExport({ after: (step) => void steps.push(step) }, isCut);
        // Steps add others.
        for (let step = steps.shift(); step !== undefined; step = steps.shift()) await step();
        lines = linesOf(whole);
      });
      const anyLine = (min = 0) => fc.nat().map((number) => min + (number % (lines.length - min)));

      test("is intact, in whatever parts it is read, with its signatures or without", async () => {
        const verdict = await verify(whole);
        assert.equal(verdict.result, "intact");
        const { after, through, stub, checkpoints, areSigned, project } = verdict;
        assert.deepEqual(
          [project, areSigned, after.number, through.number],
          [projectId, true, isCut ? 3 : 0, isCut ? 19 : 16],
        );
        assert.deepEqual(
          [stub?.number ?? 0, checkpoints, lines.length],
          [after.number, 5, isCut ? 23 : 22],
        );
        for (const partBytes of [1, 7, 100_000])
          assert.deepEqual(await verify(whole, signer.publicKeys, partBytes), verdict);
        assert.deepEqual(await verify(whole, null), { ...verdict, areSigned: false });
      });

      test("shows any byte that was altered, and its line", async () => {
        const bytes = Buffer.from(whole);
        await fc.assert(
          fc.asyncProperty(
            fc.nat(bytes.length - 1),
            fc.integer({ min: 1, max: 255 }),
            async (at, difference) => {
              const altered = Buffer.from(bytes);
              altered[at] = ((altered[at] ?? 0) + difference) % 256;
              const line = bytes.subarray(0, at).filter((byte) => byte === 10).length + 1;
              if (line === 1 && (await isNoExport(altered))) return;
              const found = await breaks(altered);
              assert.equal(found.line, line, found.message);
            },
          ),
          runs,
        );
      });

      test("shows any member that was left out, also one that is null", async () => {
        const without = function* (value: unknown): Generator<unknown> {
          if (typeof value !== "object" || value === null || Array.isArray(value)) return;
          for (const [name, item] of Object.entries(value)) {
            const rest = Object.entries(value).filter(([other]) => other !== name);
            yield Object.fromEntries(rest);
            for (const less of without(item)) yield { ...value, [name]: less };
          }
        };
        for (const [index, line] of lines.entries()) {
          for (const less of without(JSON.parse(line))) {
            const altered = textOf(lines.toSpliced(index, 1, JSON.stringify(less)));
            if (index === 0 && (await isNoExport(altered))) continue;
            assert.equal((await breaks(altered)).line, index + 1, JSON.stringify(less));
          }
        }
      });

      test("shows any value of a line that was altered, also where the line stays well-formed", async () => {
        const values = fc.constantFrom<unknown>(
          null,
          "",
          "x",
          0,
          7,
          {},
          [],
          true,
          "2026-01-01T00:00:00.000000Z",
          "f".repeat(64),
        );
        await fc.assert(
          fc.asyncProperty(anyLine(), fc.nat(), values, async (index, which, value) => {
            const line = JSON.parse(lines[index] ?? "") as Record<string, unknown>;
            const places = [line, line["entry"], line["after"], line["through"]].filter(
              (part) => part instanceof Object,
            );
            const names = places.flatMap((part) =>
              Object.keys(part as object).map((name) => [part, name] as const),
            );
            const [part, name] = names[which % names.length] as [Record<string, unknown>, string];
            if (JSON.stringify(part[name]) === JSON.stringify(value)) return;
            part[name] = value;
            const altered = textOf(lines.with(index, JSON.stringify(line)));
            if (index === 0 && (await isNoExport(altered))) return;
            assert.equal((await breaks(altered)).line, index + 1);
          }),
          runs,
        );
      });

      test("shows any line that was removed: what it was, or the line after it", async () => {
        for (const [index, removed] of lines.entries()) {
          const altered = textOf(lines.toSpliced(index, 1));
          if (index === 0) {
            assert.ok(await isNoExport(altered));
            continue;
          }
          const found = await breaks(altered);
          const line = parseLine(removed);
          assert.equal(
            found.trouble,
            index === lines.length - 1 ? "truncated" : "missing",
            found.message,
          );
          if (line?.kind === "entry" || line?.kind === "checkpoint")
            assert.equal(found.entry, line.number, found.message);
          // Only the next checkpoint tells that one is missing.
          if (line?.kind !== "checkpoint") assert.equal(found.line, index + 1, found.message);
        }
      });

      test("shows lines that were removed together", async () => {
        await fc.assert(
          fc.asyncProperty(anyLine(1), fc.integer({ min: 1, max: 6 }), async (index, count) => {
            const found = await breaks(textOf(lines.toSpliced(index, count)));
            const gone = lines.slice(index, index + count).map((line) => parseLine(line));
            const first = gone.find((line) => line?.kind === "entry");
            if (first?.kind === "entry" && gone[0]?.kind !== "stub")
              assert.equal(found.entry, first.number, found.message);
          }),
          { numRuns: runs.numRuns / 5 },
        );
      });

      test("shows any two lines that were swapped", async () => {
        await fc.assert(
          fc.asyncProperty(anyLine(), anyLine(), async (one, other) => {
            const low = Math.min(one, other);
            const high = Math.max(one, other);
            if (low === high) return;
            const altered = textOf(lines.with(low, lines[high] ?? "").with(high, lines[low] ?? ""));
            if (low === 0) {
              assert.ok(await isNoExport(altered));
              return;
            }
            const found = await breaks(altered);
            assert.equal(found.trouble, "reordered", found.message);
            // A checkpoint that has changed places with the next entry is found where it stands
            // now.
            const places =
              high === low + 1 && entryAt(lines, low) === null ? [low + 1, high + 1] : [low + 1];
            assert.ok(places.includes(found.line), `${found.message} ${low} ${high}`);
          }),
          runs,
        );
      });

      test("shows any line that was inserted a second time", async () => {
        await fc.assert(
          fc.asyncProperty(anyLine(), anyLine(1), async (from, to) => {
            const found = await breaks(textOf(lines.toSpliced(to, 0, lines[from] ?? "")));
            // Two that are alike stand side by side: either is the second.
            const places = from === to || from === to - 1 ? [to, to + 1, to + 2] : [to + 1];
            assert.ok(places.includes(found.line), `${found.message} ${from} ${to}`);
            if (from > 1) assert.equal(found.trouble, "inserted", found.message);
          }),
          runs,
        );
      });

      test("shows an entry that was made up and put in, with the right hash", async () => {
        for (let index = isCut ? 2 : 1; index < lines.length; index++) {
          const last = lines
            .slice(0, index)
            .map((line) => parseLine(line))
            .findLast((line) => line?.kind !== "checkpoint");
          const place = last?.kind === "slipway-audit-export" ? last.after : last;
          const model = lines.map((_, at) => entryAt(lines, at)).find((line) => line !== null);
          assert.ok(place && model);
          const entry = { ...model.entry, id: "99", action: "app.delete" };
          const number = place.number + 1;
          const hash = linkHash(place.hash, linkText({ number, project: projectId, entry }));
          const found = await breaks(
            textOf(lines.toSpliced(index, 0, lineText(entryLine({ number, hash, entry })))),
          );
          assert.deepEqual(
            [found.trouble, found.line, found.entry],
            ["inserted", index + 1, number],
            found.message,
          );
        }
      });

      test("shows any end that was cut off", async () => {
        const bytes = Buffer.from(whole);
        for (let length = 0; length < bytes.length; length += 1 + (length % 7)) {
          const cut = bytes.subarray(0, length);
          if (length < 40 && (await isNoExport(cut))) continue;
          const found = await breaks(cut);
          const ended = cut.filter((byte) => byte === 10).length;
          assert.deepEqual([found.trouble, found.line], ["truncated", ended + 1], found.message);
        }
        assert.equal((await breaks(bytes.subarray(0, -1))).trouble, "truncated");
      });

      test("shows entries that were written anew with all hashes behind them, up to the checkpoint that was signed", async () => {
        for (let index = 1; index < lines.length; index++) {
          if (entryAt(lines, index) === null) continue;
          const anew = [...lines];
          let { hash } =
            parseLine(lines[0] ?? "")?.kind === "slipway-audit-export"
              ? (JSON.parse(lines[0] ?? "").after as { hash: string })
              : chainBegin;
          let signed = isCut ? 3 : 0;
          for (let at = 1; at < lines.length; at++) {
            const line = parseLine(anew[at] ?? "");
            if (line?.kind === "checkpoint" && at < index) signed = line.number;
            if (line?.kind !== "entry") continue;
            const entry = at === index ? { ...line.entry, action: "app.delete" } : line.entry;
            hash = linkHash(hash, linkText({ number: line.number, project: projectId, entry }));
            anew[at] = lineText(entryLine({ number: line.number, hash, entry }));
          }
          const found = await breaks(textOf(anew));
          assert.deepEqual([found.trouble, found.entry], ["altered", signed + 1], found.message);
        }
      });

      test("does not pass with keys that did not sign it", async () => {
        const other = testSigner("other-key");
        const alike = testSigner();
        const unknown = await breaks(whole, other.publicKeys);
        assert.deepEqual([unknown.trouble, unknown.line], ["signature", 1]);
        assert.match(unknown.message, /"test-key", which is not among the given keys/);
        assert.deepEqual((await breaks(whole, alike.publicKeys)).trouble, "altered");
      });
    },
  );
}
