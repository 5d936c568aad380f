// Two platforms that sign and export one chain at once, while changes are made: each export is
// whole, signed without a gap, and holds all that was recorded before it began, its own entry too.
import assert from "node:assert/strict";
import { test } from "node:test";
import { AuditExport } from "#audit/export/audit-export.ts";
import { verifyExport } from "@slipway/cli/src/verify/verify-export.ts";
import { systemClock } from "#lib/clock.ts";
import { add, first, partsOf, signer, withProjects } from "./audit-chain-stage.ts";
import { chainOn, wholeLog } from "./support/audit-chain.ts";
import "./support/leftovers.ts";

const rounds = 25;

test("exports at once, by two platforms, hold each what was there before", async (t) => {
  const { db } = await withProjects(t);
  const exportBy = async (name: string): Promise<string> => {
    const exporter = new AuditExport({
      db,
      clock: systemClock,
      chain: chainOn(db, signer),
      retentionOf: () => 365,
    });
    const by = { actor: { type: "person", id: name, name } } as const;
    let text = "";
    for await (const part of await exporter.begin(wholeLog(first), by)) text += part;
    return text;
  };
  for (let round = 0; round < rounds; round++) {
    const names = ["one", "two", "three"].map((name) => `${name}-${round}`);
    const texts = await Promise.all([...names.map(exportBy), add(db, first), add(db, first)]);
    for (const [index, name] of names.entries()) {
      const text = texts[index] ?? "";
      const verdict = await verifyExport(partsOf(text), signer.publicKeys);
      assert.equal(verdict.result, "intact", JSON.stringify(verdict));
      assert.ok(
        text.includes(`"${name}"`),
        `round ${round}: the export of ${name} holds its own entry`,
      );
    }
  }
});
