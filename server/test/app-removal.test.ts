// What the removal of a deleted app spares for a while, on rows of its own.
import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "kysely";
import { createProject } from "#accounts/projects.ts";
import { removalSteps } from "#apps/app-removal-store.ts";
import { must } from "#lib/assert.ts";
import { appIdOf } from "#lib/ids.ts";
import { toJson } from "#store/json.ts";
import { byPlatform } from "./support/accounts.ts";
import { testDatabase } from "./support/database.ts";
import { insertDelivery } from "./support/webhook-rows.ts";

test("a delivery that is still tried stays for an hour after its app was deleted, and ended ones go at once", async (t) => {
  const { db } = await testDatabase(t);
  const projectId = await createProject(db, { name: "first", ownerId: null, by: byPlatform });
  const appId = appIdOf(projectId, "story");
  await db
    .insertInto("apps")
    .values({ id: appId, project_id: projectId, name: "story", request: toJson({}) })
    .execute();
  const waiting = await insertDelivery({ db, projectId, appId }, { state: "pending" });
  await insertDelivery({ db, projectId, appId }, { state: "failed" });
  const left = async (): Promise<string[]> =>
    (await db.selectFrom("webhook_deliveries").select("id").execute()).map(({ id }) => id);
  const remove = async (minutesAgo: number): Promise<void> => {
    await sql`update apps set deleting_at = clock_timestamp() - make_interval(mins => ${minutesAgo})`.execute(
      db,
    );
    const steps = removalSteps(db, { id: appId, projectId });
    await must(
      steps.find(({ name }) => name === "webhook_deliveries"),
      "there is such a step",
    ).remove(100);
  };
  await remove(59);
  assert.deepEqual(await left(), [waiting.id]);
  await remove(61);
  assert.deepEqual(await left(), []);
});
