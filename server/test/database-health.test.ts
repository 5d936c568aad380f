// Whether the database takes writes: what probes are answered, and how often it is looked at.
import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLog } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import { openDatabase } from "#store/database.ts";
import { DatabaseHealth } from "#store/database-health.ts";
import { testDatabase } from "#test/support/database.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";

test("a thousand probes look at the database once, and once more a second later", async (t) => {
  const { db } = await testDatabase(t);
  let looks = 0;
  const counted = db.withPlugin({
    transformQuery: ({ node }) => ((looks += 1), node),
    transformResult: ({ result }) => Promise.resolve(result),
  });
  const clock = new VirtualClock();
  const health = new DatabaseHealth({ db: counted, clock });
  const probe = (): Promise<boolean[]> => Promise.all(Array.from({ length: 1000 }, () => health.isWritable()));
  assert.deepEqual(new Set(await probe()), new Set([true]));
  assert.deepEqual(new Set(await probe()), new Set([true]));
  assert.equal(looks, 1);
  await clock.advance(1000);
  await probe();
  assert.equal(looks, 2);
});

test("a database that only lets read, or that does not answer, is told as such", async (t) => {
  const { url } = await testDatabase(t);
  const clock = new VirtualClock();
  const given = new URL(url.reveal());
  given.searchParams.set("options", "-c default_transaction_read_only=on");
  const readOnly = await openDatabase({ url: new Secret(given.href), connections: 1, log: silentLog });
  t.after(() => readOnly.destroy());
  assert.equal(await new DatabaseHealth({ db: readOnly, clock }).isWritable(), false);
  const silent = new DatabaseHealth({ db: readOnly, clock });
  await readOnly.connection().execute(async () => {
    const asked = silent.isWritable();
    await clock.advance(3000);
    assert.equal(await asked, false, "its only connection is taken");
  });
});
