// A database of the version before tokens had accounts: its tokens are valid on, and can be rotated
// and counted.
import assert from "node:assert/strict";
import { test } from "node:test";
import { decodeJwt, SignJWT } from "jose";
import { sql } from "kysely";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { Sealer } from "#lib/seal.ts";
import { SigningKeyUseCases } from "#accounts/signing-key-use-cases.ts";
import { SigningKeys } from "#accounts/keys.ts";
import { TokenCheck } from "#accounts/token-check.ts";
import { TokenUseCases } from "#accounts/token-use-cases.ts";
import type { ProjectId, TokenId } from "#lib/ids.ts";
import { migrate } from "#store/migrate.ts";
import { personLookup } from "#people/person-lookup.ts";
import { byPlatform } from "#test/support/accounts.ts";
import { emptyDatabase } from "#test/support/database.ts";
import "#test/support/leftovers.ts";
import { connect } from "./support/connect.ts";
import { migrateBefore } from "./support/earlier-schema.ts";

test("tokens that were issued before they had accounts stay valid and become accounts", async (t) => {
  const url = await emptyDatabase(t);
  await migrateBefore(t, "0007", url);
  const db = await connect(url, 4);
  t.after(() => db.destroy());
  const projectId = "p-00000001" as ProjectId;
  const id = "00000000-0000-4000-8000-000000000001" as TokenId;
  await sql`insert into projects (id, name) values (${projectId}, 'old')`.execute(db);
  // As an earlier version did, in the transaction of the first start: the token's time is that of
  // the database.
  const keys = new SigningKeys({ sealer: new Sealer(["11".repeat(32)]), clock: systemClock });
  const key = await keys.rotate(db, byPlatform);
  await sql`insert into tokens (id, kind, project_id, name, role, created_at)
    values (${id}, 'service_account', ${projectId}, 'ci', 'owner', now() - interval '1 day')`.execute(
    db,
  );
  const token = await new SignJWT({
    principal: "serviceaccount/sa-1",
    projectId,
    jti: id,
    iat: 1_700_000_000,
  })
    .setProtectedHeader({ alg: "RS256", typ: "JWT", kid: key.id })
    .sign(key.privateKey);

  await migrate({ url, log: silentLog });
  await keys.load(db);
  const notifications = { listen: () => () => undefined };
  const caller = await new TokenCheck({
    db,
    keys,
    notifications,
    people: personLookup(db),
    clock: systemClock,
  }).check(token);
  assert.ok(caller !== null && caller.kind !== "person");
  assert.deepEqual([caller.accountId, caller.role, caller.permissions], [id, "owner", null]);
  const parts = { db, keys, clock: systemClock };
  const [counted] = await new SigningKeyUseCases(parts).list();
  assert.deepEqual([counted?.id, counted?.validTokens], [key.id, 1]);
  const place = { kind: "service_account", projectId, accountId: id } as const;
  const asking = { caller, by: byPlatform };
  const rotation = { expiresAt: undefined, overlapSeconds: 60 };
  const rotated = await new TokenUseCases(parts).rotate(place, rotation, asking);
  assert.equal(decodeJwt(rotated.token.reveal())["principal"], `serviceaccount/sa-${id}`);
  assert.equal(rotated.account.tokens.length, 2);
});
