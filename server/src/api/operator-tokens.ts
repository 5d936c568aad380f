// Route handlers by which operators manage their tokens and the keys that sign all tokens.
import type { z } from "zod";
import type { Sent } from "@slipway/contract/route.ts";
import type { operatorToken, signingKey } from "@slipway/contract/token-fields.ts";
import type { SigningKeyUseCases } from "#accounts/signing-key-use-cases.ts";
import type { IssuedAccount } from "#accounts/token-use-cases.ts";
import { pathPart, bodyOf, type Handlers } from "./call.ts";
import { accountRefOf, requesterOf, endOf, rotationOf, showAccount } from "./token-answers.ts";
import type { HandlerParts } from "./parts.ts";

const kind = "operator" as const;

/** Route handlers for operators' tokens and signing keys. */
export function operatorTokenHandlers({
  tokenUseCases: useCases,
  keyUseCases: keys,
}: HandlerParts) {
  return {
    async listOperatorTokens() {
      return (await useCases.list({ kind, projectId: null })).map(showAccount);
    },
    async createOperatorToken(call) {
      const body = bodyOf(call);
      const wish = { kind, expiresAt: endOf(body["expires_at"]) } as const;
      return showIssued(
        await useCases.issue({ wish, name: String(body["name"]) }, requesterOf(call)),
      );
    },
    async rotateOperatorToken(call) {
      return showIssued(
        await useCases.rotate(accountRefOf(call, kind), rotationOf(call), requesterOf(call)),
      );
    },
    async deleteOperatorToken(call) {
      return showAccount(await useCases.revoke(accountRefOf(call, kind), call.by));
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
  } satisfies Handlers;
}

function showIssued({
  account,
  token,
}: IssuedAccount): z.infer<typeof operatorToken> & { token: string } {
  return { ...showAccount(account), token: token.reveal() };
}

type ListedKey = Awaited<ReturnType<SigningKeyUseCases["list"]>>[number];

function showKey(key: ListedKey): Sent<z.infer<typeof signingKey>> {
  const { id, created_at, retired_at, withdrawn_at, validTokens } = key;
  return {
    id,
    state: keyState(key),
    created_at,
    retired_at,
    withdrawn_at,
    // A withdrawn key has no valid tokens, although the rows of its tokens do not say so.
    valid_tokens: withdrawn_at === null ? validTokens : 0,
  };
}

function keyState({ withdrawn_at, retired_at }: ListedKey): z.infer<typeof signingKey>["state"] {
  if (withdrawn_at !== null) return "withdrawn";
  return retired_at !== null ? "retired" : "current";
}
