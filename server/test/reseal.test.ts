// Rotation of the secret key, on everything that is sealed in a real database.
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { useCases } from "#apps/use-cases.ts";
import { endPushes, requestCancel } from "#deploy/end-builds.ts";
import { rebuild, receiveBuild, receiveUpload, receiveSettings } from "#deploy/receive.ts";
import type { AppId } from "#lib/ids.ts";
import { Sealer } from "#lib/seal.ts";
import { callSecretContext } from "#runs/settlement.ts";
import { sealedColumns } from "#platform-sealed.ts";
import { resealOld, sealingKeyIds } from "#store/sealed-store.ts";
import { appsAlone } from "./support/apps-alone.ts";
import { insertRun } from "./support/run-rows.ts";
import { startManagementApi } from "./support/management-api.ts";

test("after a start with a new key everything opens with that key alone", async (t) => {
  const api = await startManagementApi(t);
  const project = `/v2/projects/${api.projectId}`;
  const oldKeyId = api.sealer.keyIds()[0] ?? "";
  const body = { name: "my-app", gitRepo: "a/b", dockerAuth: '{"auths":{}}' };
  const headers = { "idempotency-key": "one" };
  const created = await api.call("POST", `${project}/apps/git`, { body, headers });
  assert.equal(created.status, 201);
  await api.call("PATCH", `${project}/secrets`, { body: { A: "one" } });
  await api.call("PATCH", `${project}/apps/my-app/secrets`, { body: { B: "two" } });
  const credential = { kind: "token", secret: "three" };
  await api.call("PUT", `${project}/git-credentials/example.com`, { body: credential });

  const place = { db: api.db, projectId: api.projectId, appId: created.body.appId as AppId };
  const context = callSecretContext(place.appId);
  const runs = [await insertRun(place), await insertRun(place, { state: "failure" })];
  const sealedForRuns = api.sealer.seal("four", context);
  await api.db
    .updateTable("runs")
    .set({ webhook_secret_sealed: sealedForRuns })
    .where("id", "in", runs)
    .execute();

  assert.ok((await sealingKeyIds(api.db, sealedColumns)).includes(oldKeyId));

  const newKey = randomBytes(32).toString("hex");
  const both = new Sealer([newKey, api.secretKey]);
  const count = await resealOld(api.db, both, sealedColumns);
  assert.ok(count >= 7, `${count} texts`);
  assert.equal(await resealOld(api.db, both, sealedColumns), 0);
  const only = new Sealer([newKey]);
  const sealedBy = await sealingKeyIds(api.db, sealedColumns);
  assert.deepEqual(sealedBy, only.keyIds());
  const kept = await api.db.selectFrom("runs").select("webhook_secret_sealed as sealed").execute();
  assert.deepEqual(
    kept.map(({ sealed }) => only.open(sealed ?? "", context).reveal()),
    ["four", "four"],
  );

  const receiver = {
    receiveBuild,
    receiveUpload,
    receiveSettings,
    rebuild,
    requestCancel,
    endPushes,
  };
  const cases = useCases({ ...appsAlone, db: api.db, sealer: only, receiver });
  const environment = await cases.secrets.environmentOf(created.body.appId);
  const values = Object.entries(environment).map(([name, value]) => [name, value.reveal()]);
  assert.deepEqual(Object.fromEntries(values), { A: "one", B: "two" });
  assert.equal(
    (await cases.credentials.forFetch(api.projectId, "example.com"))?.secret.reveal(),
    "three",
  );
});
