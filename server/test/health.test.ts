// What probes are answered, and how often the database is looked at for it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Lifecycle } from "#lib/lifecycle.ts";
import { silentLog } from "#lib/log.ts";
import { Secret } from "#lib/secret.ts";
import { Health, type HealthOptions } from "#platform-health.ts";
import { testDatabase } from "#test/support/database.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { connect } from "./support/connect.ts";

function serving(options: HealthOptions): Health {
  const health = new Health(options);
  health.serve(new Lifecycle({ log: silentLog, clock: options.clock }), () => false);
  return health;
}

test("a thousand probes look at the database once, and once more a second later", async (t) => {
  const { db } = await testDatabase(t);
  let looks = 0;
  const counted = db.withPlugin({
    transformQuery: ({ node }) => ((looks += 1), node),
    transformResult: ({ result }) => Promise.resolve(result),
  });
  const clock = new VirtualClock();
  const health = serving({ db: counted, clock, storeRefusal: () => null });
  const probe = (): Promise<(string | null)[]> =>
    Promise.all(Array.from({ length: 1000 }, () => health.notReady()));
  assert.deepEqual(new Set(await probe()), new Set([null]));
  assert.deepEqual(new Set(await probe()), new Set([null]));
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
  const readOnly = await connect(new Secret(given.href), 1);
  t.after(() => readOnly.destroy());
  assert.match(
    String(await serving({ db: readOnly, clock, storeRefusal: () => null }).notReady()),
    /does not accept writes/,
  );
  const silent = serving({ db: readOnly, clock, storeRefusal: () => null });
  await readOnly.connection().execute(async () => {
    const asked = silent.notReady();
    await clock.advance(3000);
    assert.match(String(await asked), /does not accept writes/, "its only connection is taken");
  });
});
