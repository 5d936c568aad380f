// What operators do with their own tokens and with the keys that sign all tokens.
import type { z } from "zod";
import { operatorTokenFields, type operatorToken, type signingKey } from "@slipway/contract/token-fields.ts";
import type { KeyDesk } from "#accounts/key-desk.ts";
import type { AccountPlace, IssuedAccount, TokenDesk } from "#accounts/token-desk.ts";
import { pathPart, type Call, type Handler } from "./call.ts";
import { readBody } from "./parameters.ts";
import { accountOf, askingOf, endOf, rotationOf, showAccount } from "./token-answers.ts";

type Ids =
  | "listOperatorTokens"
  | "createOperatorToken"
  | "rotateOperatorToken"
  | "deleteOperatorToken"
  | "listSigningKeys"
  | "rotateSigningKey"
  | "withdrawSigningKey";

const kind = "operator" as const;

/** Answers for operators' tokens and signing keys. */
export function operatorTokenHandlers({
  desk,
  keys,
}: {
  readonly desk: TokenDesk;
  readonly keys: KeyDesk;
}): Record<Ids, Handler> {
  return {
    async listOperatorTokens() {
      return (await desk.list({ kind, projectId: null })).map(showAccount);
    },
    async createOperatorToken(call) {
      const body = readBody({ fields: operatorTokenFields, required: ["name"] }, call.body);
      const wish = { kind, expiresAt: endOf(body["expires_at"]) } as const;
      return showIssued(await desk.issue({ wish, name: String(body["name"]) }, askingOf(call)));
    },
    async rotateOperatorToken(call) {
      return showIssued(await desk.rotate(placeOf(call), rotationOf(call), askingOf(call)));
    },
    async deleteOperatorToken(call) {
      return showAccount(await desk.revoke(placeOf(call), call.by));
    },
    async listSigningKeys() {
      return (await keys.list()).map(showKey);
    },
    async rotateSigningKey(call) {
      return showKey(await keys.rotate(call.by));
    },
    async withdrawSigningKey(call) {
      const id = pathPart(call.request, "key_id") ?? "";
      return showKey(await keys.withdraw(id, call.query["force"] === true, call.by));
    },
  };
}

function placeOf(call: Call): AccountPlace {
  return { kind, projectId: null, accountId: accountOf(call, "token_id") };
}

function showIssued({ account, token }: IssuedAccount): z.infer<typeof operatorToken> & { token: string } {
  return { ...showAccount(account), token: token.reveal() };
}

function showKey(key: Awaited<ReturnType<KeyDesk["list"]>>[number]): z.infer<typeof signingKey> {
  const { id, created_at, retired_at, withdrawn_at, validTokens } = key;
  return {
    id,
    state: withdrawn_at !== null ? "withdrawn" : retired_at !== null ? "retired" : "current",
    created_at: created_at.toISOString(),
    retired_at: retired_at?.toISOString() ?? null,
    withdrawn_at: withdrawn_at?.toISOString() ?? null,
    valid_tokens: withdrawn_at === null ? validTokens : 0,
  };
}
