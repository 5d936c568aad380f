// Route handlers for the API keys of a project: tokens that can only call its apps. Published
// clients fetch such a token before they call an app: they search the list for the source
// `cerebrium_jwt`.
import type { z } from "zod";
import type { apiKey } from "@slipway/contract/token-fields.ts";
import type { AccountView } from "#accounts/account-view.ts";
import { allows } from "#accounts/permissions.ts";
import type { Secret } from "#lib/secret.ts";
import { callerOf, projectOf, bodyOf, type Handlers } from "./call.ts";
import { accountRefOf, requesterOf, endOf, rotationOf, showAccount } from "./token-answers.ts";
import type { HandlerParts } from "./parts.ts";

const kind = "inference" as const;

/** Route handlers for API keys. */
export function apiKeyHandlers({ tokenUseCases: useCases }: HandlerParts) {
  return {
    async listApiKeys(call) {
      const scope = { kind, projectId: projectOf(call) } as const;
      const accounts = await useCases.list(scope);
      // A caller who may issue such tokens learns nothing new from an existing one.
      const mayRead = (["tokens.write", "apps.call"] as const).every((permission) =>
        allows(callerOf(call), permission, scope.projectId),
      );
      const tokens = mayRead ? await useCases.read(scope, accounts, call.by) : null;
      const shown = accounts.map((account) => show(account, tokens?.get(account.id)));
      // The keys that are shown with their token come first.
      return shown.toSorted(
        (first, second) => Number(second.apiKey !== null) - Number(first.apiKey !== null),
      );
    },
    async createApiKey(call) {
      const body = bodyOf(call);
      const end = endOf(body["expires_at"]);
      const wish = {
        kind,
        projectId: projectOf(call),
        isReadable: body["readable"] === true,
        ...(end === null ? {} : { expiresAt: end }),
      } as const;
      const { account, token } = await useCases.issue(
        { wish, name: String(body["name"]) },
        requesterOf(call),
      );
      return { ...show(account, account.isReadable ? token : undefined), token: token.reveal() };
    },
    async rotateApiKey(call) {
      const { account, token } = await useCases.rotate(
        accountRefOf(call, kind),
        rotationOf(call),
        requesterOf(call),
      );
      return { ...show(account, account.isReadable ? token : undefined), token: token.reveal() };
    },
    async deleteApiKey(call) {
      return show(await useCases.revoke(accountRefOf(call, kind), call.by), undefined);
    },
  } satisfies Handlers;
}

/**
 * The account as an API key; `token` is undefined when it is not shown. By the source, clients find
 * the keys that are shown with their token.
 */
function show(account: AccountView, token: Secret | undefined): z.infer<typeof apiKey> {
  const source = token === undefined ? "slipway" : "cerebrium_jwt";
  return {
    ...showAccount(account),
    readable: account.isReadable,
    source,
    apiKey: token?.reveal() ?? null,
  };
}
