// Revokes a token in tests as the management API does: all tokens of its account.
import { decodeJwt } from "jose";
import type { SigningKeys } from "#accounts/keys.ts";
import { TokenUseCases } from "#accounts/token-use-cases.ts";
import { systemClock } from "#lib/clock.ts";
import type { ProjectId, TokenId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { byPlatform } from "./accounts.ts";

/**
 * Rejects with `Fault("not_found")` when the token does not belong to the project, or was already
 * revoked.
 */
export async function revokeToken(
  {
    db,
    keys,
    projectId,
  }: { readonly db: Db; readonly keys: SigningKeys; readonly projectId: ProjectId },
  token: string,
): Promise<void> {
  const { kind, account_id: accountId } = await db
    .selectFrom("tokens")
    .select(["kind", "account_id"])
    .where("id", "=", decodeJwt(token).jti as TokenId)
    .executeTakeFirstOrThrow();
  await new TokenUseCases({ db, keys, clock: systemClock }).revoke(
    { kind, projectId, accountId },
    byPlatform,
  );
}
