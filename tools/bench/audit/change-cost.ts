// The cost that the audit log adds to a change: the same change without an entry, with an unchained
// entry, and with a chained entry, in turns. Nothing waits for fsync, which would take equally long
// in each case.
import type { Client } from "pg";
import { platformActor } from "@slipway/server/src/audit/record.ts";
import { record } from "@slipway/server/src/audit/record.ts";
import type { ProjectId } from "@slipway/server/src/lib/ids.ts";
import type { Db } from "@slipway/server/src/store/database.ts";

/** The variants, as the tables name them. */
export const changeKinds = {
  bare: "no entry",
  entry: "an entry, not chained",
  chained: "an entry, chained",
} as const;
export type ChangeKind = keyof typeof changeKinds;

export type ChangeCost = {
  readonly db: Db;
  readonly owner: Client;
  readonly projectId: ProjectId;
  readonly rounds: number;
};

const changesOfRound = 500;
const triggers = ["audit_log_note", "audit_log_link"];

/** Medians of the rounds, in milliseconds per change. */
export async function measureChanges({
  db,
  owner,
  projectId,
  rounds,
}: ChangeCost): Promise<Record<ChangeKind, number[]>> {
  const times: Record<ChangeKind, number[]> = { bare: [], entry: [], chained: [] };
  const by = {
    actor: platformActor,
    request: { id: "r-1", address: "127.0.0.1", userAgent: "bench" },
  };
  const change = async (isRecorded: boolean, index: number): Promise<void> => {
    await db.transaction().execute(async (tx) => {
      await tx
        .updateTable("projects")
        .set({ name: `name ${index}` })
        .where("id", "=", projectId)
        .execute();
      if (!isRecorded) return;
      const resource = { type: "project", id: projectId, name: `name ${index}` };
      const changes = { name: { old: `name ${index - 1}`, new: `name ${index}` } };
      await record(tx, { projectId, action: "project.update", by, resource, changes });
    });
  };
  // The first round warms up node and the database.
  for (let round = 0; round <= rounds; round++) {
    for (const kind of ["bare", "entry", "chained"] as const) {
      for (const name of triggers)
        await owner.query(
          `alter table audit_log ${kind === "entry" ? "disable" : "enable"} trigger ${name}`,
        );
      const measured: number[] = [];
      for (let index = 1; index <= changesOfRound; index++) {
        const began = performance.now();
        await change(kind !== "bare", index);
        measured.push(performance.now() - began);
      }
      if (round > 0) times[kind].push(medianOf(measured));
    }
  }
  return times;
}

function medianOf(numbers: readonly number[]): number {
  return (
    numbers.toSorted((left, right) => left - right)[Math.floor(numbers.length / 2)] ?? Number.NaN
  );
}
