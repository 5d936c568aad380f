// How PostgreSQL answers the statement of a function that reads, for tests of indexes.
import assert from "node:assert/strict";
import { sql, type KyselyPlugin, type RootOperationNode } from "kysely";
import type { Db } from "#store/database.ts";

/** A step of a plan, as PostgreSQL names its fields. */
export type PlanNode = Readonly<Record<string, unknown>> & { readonly Plans?: readonly PlanNode[] };

/** The steps, after a run, of the one statement that `read` makes. */
export async function planOf(
  db: Db,
  read: (db: Db) => Promise<unknown>,
): Promise<readonly PlanNode[]> {
  const statements: RootOperationNode[] = [];
  const recorder: KyselyPlugin = {
    transformQuery({ node }) {
      statements.push(node);
      return node;
    },
    transformResult: ({ result }) => Promise.resolve(result),
  };
  await read(db.withPlugin(recorder));
  const [statement, ...others] = statements;
  assert.ok(statement !== undefined && others.length === 0, "it is one statement");
  const source = { toOperationNode: () => statement };
  const { rows } = await sql<{
    "QUERY PLAN": [{ Plan: PlanNode }];
  }>`explain (analyze, format json) ${source}`.execute(db);
  const stepsOf = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(stepsOf)];
  return stepsOf(rows[0]?.["QUERY PLAN"][0].Plan ?? assert.fail("there is a plan"));
}
