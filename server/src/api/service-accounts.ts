// Route handlers for the service accounts of a project: tokens by which programs manage it.
import type { z } from "zod";
import type { issuedServiceAccount, serviceAccount } from "@slipway/contract/token-fields.ts";
import type { Permission, Role } from "@slipway/contract/words.ts";
import type { AccountView } from "#accounts/account-view.ts";
import type { Rights } from "#accounts/rights.ts";
import type { IssuedAccount } from "#accounts/token-use-cases.ts";
import { Fault } from "#lib/fault.ts";
import { projectOf, bodyOf, type Handlers } from "./call.ts";
import { accountRefOf, requesterOf, endOf, rotationOf, showAccount } from "./token-answers.ts";
import type { HandlerParts } from "./parts.ts";

const kind = "service_account" as const;

/** Route handlers for service accounts. */
export function serviceAccountHandlers({ tokenUseCases: useCases }: HandlerParts) {
  return {
    async listServiceAccounts(call) {
      return (await useCases.list({ kind, projectId: projectOf(call) })).map(show);
    },
    async createServiceAccount(call) {
      const body = bodyOf(call);
      const rights = rightsOf(body);
      if (rights === null) throw new Fault("invalid", "Either role or permissions is required.");
      const wish = {
        kind,
        projectId: projectOf(call),
        role: rights.role,
        expiresAt: endOf(body["expires_at"]),
        ...(rights.permissions === null ? {} : { permissions: rights.permissions }),
      } as const;
      return showIssued(
        await useCases.issue({ wish, name: String(body["name"]) }, requesterOf(call)),
      );
    },
    async updateServiceAccount(call) {
      const body = bodyOf(call);
      const rights = rightsOf(body);
      const name = body["name"];
      if (typeof name !== "string" && rights === null) {
        throw new Fault("invalid", "The body contains no changes; send name, role or permissions.");
      }
      const change = {
        ...(typeof name === "string" ? { name } : {}),
        ...(rights === null ? {} : { rights }),
      };
      return show(await useCases.update(accountRefOf(call, kind), change, requesterOf(call)));
    },
    async rotateServiceAccount(call) {
      return showIssued(
        await useCases.rotate(accountRefOf(call, kind), rotationOf(call), requesterOf(call)),
      );
    },
    async deleteServiceAccount(call) {
      return show(await useCases.revoke(accountRefOf(call, kind), call.by));
    },
  } satisfies Handlers;
}

/**
 * The rights that a body asks for, which the contract has validated; null: it has neither a role
 * nor permissions. Throws `Fault("invalid")` if it has both.
 */
function rightsOf(body: Readonly<Record<string, unknown>>): Rights | null {
  const role = body["role"] as Role | null;
  const permissions = (body["permissions"] ?? []) as readonly Permission[];
  if (role !== null && permissions.length > 0) {
    throw new Fault("invalid", "Send either role or permissions, not both.");
  }
  if (role !== null) return { role, permissions: null };
  return permissions.length === 0 ? null : { role: null, permissions };
}

function show(account: AccountView): z.infer<typeof serviceAccount> {
  const { role, permissions } = account.rights;
  return {
    ...showAccount(account),
    role,
    permissions: permissions as z.infer<typeof serviceAccount>["permissions"],
  };
}

function showIssued({ account, token }: IssuedAccount): z.infer<typeof issuedServiceAccount> {
  return { ...show(account), token: token.reveal() };
}
