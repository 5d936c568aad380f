// The cost that the audit log adds to a change: the same change without an entry, with an unchained
// entry, and with a chained entry, in turns. Nothing waits for fsync, which would take equally long
// in each case.
import type { Client } from "pg";
import { platformActor, record } from "@slipway/server/src/audit/record.ts";
import type { ProjectId } from "@slipway/server/src/lib/ids.ts";
import type { Db } from "@slipway/server/src/store/database.ts";
import { milliseconds } from "#bench/harness/markdown.ts";
import { alternate, inRounds, timed } from "#bench/harness/rounds.ts";
import { median } from "#bench/harness/statistics.ts";

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
  readonly print: (line: string) => void;
};

const changesOfRound = 500;
const triggers = ["audit_log_note", "audit_log_link"];

/** Medians of the rounds, in milliseconds per change. */
export async function measureChanges({
  db,
  owner,
  projectId,
  rounds,
  print,
}: ChangeCost): Promise<Record<ChangeKind, number[]>> {
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
  const measure = async (kind: ChangeKind): Promise<number> => {
    for (const name of triggers)
      await owner.query(
        `alter table audit_log ${kind === "entry" ? "disable" : "enable"} trigger ${name}`,
      );
    const isRecorded = kind !== "bare";
    const changeOnce = (index: number): Promise<number> => timed(() => change(isRecorded, index));
    return median(await inRounds(changesOfRound, changeOnce, { warmUps: 0 }));
  };
  return await alternate(
    {
      bare: () => measure("bare"),
      entry: () => measure("entry"),
      chained: () => measure("chained"),
    },
    { rounds, print, show: (ms) => milliseconds(ms, 2) },
  );
}
