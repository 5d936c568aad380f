// Accounts of tokens as answers, and what the bodies of their routes have in common.
import type { z } from "zod";
import { rotationFields, type serviceAccount } from "@slipway/contract/token-fields.ts";
import type { AccountView, LastUse } from "#accounts/account-view.ts";
import type { Asking, Rotation } from "#accounts/token-use-cases.ts";
import { Fault } from "#lib/fault.ts";
import { uuidForm, type TokenId } from "#lib/ids.ts";
import { callerOf, pathPart, type ApiCall } from "./call.ts";
import { readBody, readTime } from "./parameters.ts";

/** What all kinds have in common. */
export type ShownAccount = Omit<z.infer<typeof serviceAccount>, "role" | "permissions">;

/** The account's id in the path. Throws `Fault("not_found")` for what cannot be one. */
export function accountOf(call: ApiCall, part: string): TokenId {
  const given = pathPart(call.request, part) ?? "";
  if (!uuidForm.test(given)) throw new Fault("not_found", "There is none with that id.");
  return given as TokenId;
}

/** Who asks, whose rights bound what they can give. */
export function askingOf(call: ApiCall): Asking {
  return { caller: callerOf(call), by: call.by };
}

/** The body of a rotation; none is one without fields. Here an end that is null says never: left out, it is another one. */
export function rotationOf(call: ApiCall): Rotation {
  const given = call.body ?? {};
  const body = readBody({ fields: rotationFields, required: [] }, given);
  const isGiven = Object.hasOwn(given, "expires_at");
  const expiresAt = isGiven ? endOf(body["expires_at"]) : undefined;
  return { expiresAt, overlapSeconds: Number(body["overlap_seconds"]) };
}

/** A field `expires_at` that was checked by its row; null: none was given. */
export function endOf(given: unknown): Date | null {
  return given === null || given === undefined ? null : readTime("expires_at", given);
}

/** Times as RFC 3339. */
export function showAccount(account: AccountView): ShownAccount {
  const { id, name, state, createdAt, expiresAt, lastUse, tokens } = account;
  return {
    ...{ id, name, state, created_at: createdAt.toISOString(), expires_at: expiresAt?.toISOString() ?? null },
    ...showUse(lastUse),
    tokens: tokens.map((token) => ({
      ...{ id: token.id, state: token.state, created_at: token.createdAt.toISOString() },
      expires_at: token.expiresAt?.toISOString() ?? null,
      ...showUse(token.lastUse),
    })),
  };
}

function showUse(use: LastUse | null): Pick<ShownAccount, "last_used_at" | "last_used_address"> {
  return { last_used_at: use?.at.toISOString() ?? null, last_used_address: use?.address ?? null };
}
