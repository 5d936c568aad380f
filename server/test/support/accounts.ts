// A project with an owner, signing keys, and functions to issue and check tokens, for tests that
// need a caller.
import type { TestContext } from "node:test";
import { systemClock, type Clock } from "#lib/clock.ts";
import type { ProjectId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { Sealer } from "#lib/seal.ts";
import type { Secret } from "#lib/secret.ts";
import { SigningKeys } from "#accounts/keys.ts";
import { createProject } from "#accounts/projects.ts";
import { issueToken, type IssuedToken, type TokenWish } from "#accounts/tokens.ts";
import { TokenCheck } from "#accounts/token-check.ts";
import { platformActor, type By } from "#audit/record.ts";
import type { Db } from "#store/database.ts";
import { Notifications } from "#store/notify.ts";
import { personLookup } from "#people/person-lookup.ts";
import { testDatabase } from "./database.ts";
import { makePerson } from "./person.ts";
import { templateSecretKey } from "./test-server.ts";

/** The actor in tests that do not care. */
export const byPlatform: By = { actor: platformActor };

export type Accounts = {
  readonly db: Db;
  readonly url: Secret;
  readonly projectId: ProjectId;
  readonly ownerId: string;
  readonly sealer: Sealer;
  readonly keys: SigningKeys;
  readonly notifications: Notifications;
  readonly check: TokenCheck;
  issue(wish: TokenWish, name?: string): Promise<IssuedToken>;
};

/** Sets everything up in a fresh database; closed after the test. */
export async function testAccounts(
  t: TestContext,
  options: { clock?: Clock; knownMax?: number } = {},
): Promise<Accounts> {
  const { db, url } = await testDatabase(t, { hasKey: true });
  const clock = options.clock ?? systemClock;
  const sealer = new Sealer([templateSecretKey]);
  const keys = new SigningKeys({ sealer, clock });
  const { projectId, ownerId } = await db.transaction().execute(async (tx) => {
    const owner = await makePerson(tx, { email: "owner@example.test", name: "Owner" });
    return {
      ownerId: owner,
      projectId: await createProject(tx, { name: "test", ownerId: owner, by: byPlatform }),
    };
  });
  await keys.load(db);
  const notifications = new Notifications({ clock: systemClock, url, log: silentLog });
  await notifications.start();
  t.after(() => notifications.stop());
  const { knownMax } = options;
  const check = new TokenCheck({
    db,
    keys,
    notifications,
    people: personLookup(db),
    clock,
    ...(knownMax === undefined ? {} : { knownMax }),
  });
  const issue = (wish: TokenWish, name = "test"): Promise<IssuedToken> =>
    db
      .transaction()
      .execute((tx) =>
        issueToken(tx, { wish, name, key: keys.current(), nowMs: clock.now(), by: byPlatform }),
      );
  return { db, url, projectId, ownerId, sealer, keys, notifications, check, issue };
}
