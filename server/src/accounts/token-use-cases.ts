// Lists, creates, changes, rotates and revokes token accounts. Called by the API; a change and its
// audit row are one transaction, and take effect on every platform within a second of the commit.
import { Fault } from "#lib/fault.ts";
import { newTokenId, type ProjectId, type TokenId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import { record, type By } from "#audit/record.ts";
import type { Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { notify } from "#store/notify.ts";
import { accountView, isActive, type AccountView } from "./account-view.ts";
import type { Caller } from "./caller.ts";
import { currentCaller } from "./current-caller.ts";
import type { SigningKeys } from "./keys.ts";
import { callingRights, requireRights, rightsOf, type Rights } from "./rights.ts";
import { allows } from "./permissions.ts";
import { planRotation } from "./rotation.ts";
import {
  addToken,
  checkedEnd,
  checkedName,
  issueToken,
  kindNames,
  signToken,
  type TokenWish,
} from "./tokens.ts";
import * as store from "./token-store.ts";

/** Who makes the request; they can grant only rights that they have themselves. */
export type Requester = { readonly caller: Caller; readonly by: By };

/** The account `accountId`, if it has this owner. */
export type TokenAccountRef = store.TokenOwner & { readonly accountId: TokenId };

/** An account with its newest token, which is shown once. */
export type IssuedAccount = { readonly account: AccountView; readonly token: Secret };

/** The changed fields of an account; absent: unchanged. */
export type AccountChange = { readonly name?: string; readonly rights?: Rights };

export type Rotation = {
  /** Null: the new token does not expire; undefined: it lives as long as the previous one did. */
  readonly expiresAt: Date | null | undefined;
  /** How long the previous token stays valid. */
  readonly overlapSeconds: number;
};

/** The maximum number of active accounts of one owner; nobody has as many programs. */
const accountsMax = 1_000;

type TokenParts = Pick<Foundation, "db" | "clock"> & {
  readonly keys: Pick<SigningKeys, "current" | "signer">;
};

/** Use cases for tokens. They throw `Fault("invalid" | "forbidden" | "not_found" | "conflict")`. */
export class TokenUseCases {
  readonly #parts: TokenParts;

  constructor(parts: TokenParts) {
    this.#parts = parts;
  }

  /** The owner's accounts, active ones first and then newest first. */
  async list(owner: store.TokenOwner): Promise<AccountView[]> {
    const nowMs = this.#parts.clock.now();
    const accounts = await store.listAccounts(this.#parts.db, {
      ...owner,
      limit: accountsMax,
      now: new Date(nowMs),
    });
    return accounts.map((account) => accountView(account, nowMs));
  }

  /**
   * Shows the newest token of each account whose newest token is active and readable, if the key
   * that signed it still exists. Signs these tokens again, and records in the audit log that they
   * were read.
   */
  async read(
    owner: store.TokenOwner,
    accounts: readonly AccountView[],
    by: By,
  ): Promise<ReadonlyMap<TokenId, Secret>> {
    const { keys, clock } = this.#parts;
    const tokens = new Map<TokenId, Secret>();
    for (const { id, newest } of accounts) {
      if (!newest.is_readable || !isActive(newest, clock.now())) continue;
      const keyId = newest.signing_key_id;
      const key = keyId === null ? undefined : keys.signer(keyId);
      if (key !== undefined) tokens.set(id, await signToken(newest, key));
    }
    if (tokens.size === 0) return tokens;
    const names = accounts
      .filter((account) => tokens.has(account.id))
      .map((account) => account.name);
    await record(this.#parts.db, {
      projectId: owner.projectId,
      action: "token.read",
      by,
      resource: { type: owner.kind, name: names.join(", ") },
    });
    return tokens;
  }

  /** Creates an account with its first token. */
  async issue(
    { wish, name }: { readonly wish: TokenWish; readonly name: string },
    { caller, by }: Requester,
  ): Promise<IssuedAccount> {
    const owner = { kind: wish.kind, projectId: wish.kind === "operator" ? null : wish.projectId };
    const nowMs = this.#parts.clock.now();
    return await this.#parts.db.transaction().execute(async (tx) => {
      await requireGrantable(tx, caller, {
        projectId: owner.projectId,
        rights: wish.kind === "operator" ? [] : [rightsOfWish(wish)],
      });
      const activeCount = await store.countActiveAccounts(tx, { ...owner, now: new Date(nowMs) });
      if (activeCount >= accountsMax) {
        throw new Fault(
          "conflict",
          `There are already ${accountsMax}, which is the limit; delete unused ones.`,
        );
      }
      // The id of the first token is also that of its account.
      const { id, token } = await issueToken(tx, {
        wish,
        name,
        key: this.#parts.keys.current(),
        nowMs,
        by,
      });
      return { account: await this.#view(tx, { ...owner, accountId: id }), token };
    });
  }

  /** Changes name and rights. To change rights, the caller needs both the old and the new ones. */
  async update(
    owner: TokenAccountRef,
    change: AccountChange,
    { caller, by }: Requester,
  ): Promise<AccountView> {
    return await this.#parts.db.transaction().execute(async (tx) => {
      const { newest, tokens } = await this.#lock(tx, owner);
      const name = change.name === undefined ? newest.name : checkedName(change.name);
      const old = rightsOf(newest);
      const rights = change.rights ?? old;
      if (change.rights !== undefined) {
        await requireGrantable(tx, caller, { projectId: owner.projectId, rights: [old, rights] });
      }
      const { role, permissions } = rights;
      await store.updateAccount(tx, owner.accountId, {
        name,
        role,
        // A copy, since the query takes no read-only list; null when a role gives the rights.
        permissions: permissions && [...permissions],
      });
      await notifyOf(tx, tokens);
      await record(tx, {
        projectId: owner.projectId,
        action: "token.update",
        by,
        resource: { type: owner.kind, id: owner.accountId, name },
        changes: {
          ...(name === newest.name ? {} : { name: { old: newest.name, new: name } }),
          ...(role === old.role ? {} : { role: { old: old.role, new: role } }),
          ...(same(permissions, old.permissions)
            ? {}
            : { permissions: { old: old.permissions, new: permissions } }),
        },
      });
      return await this.#view(tx, owner);
    });
  }

  /**
   * Issues a new token of the account. The previous one ends after the overlap, and older ones end
   * at once, so that at most two are valid at a time.
   */
  async rotate(
    owner: TokenAccountRef,
    rotation: Rotation,
    { caller, by }: Requester,
  ): Promise<IssuedAccount> {
    const nowMs = this.#parts.clock.now();
    const { expiresAt } = rotation;
    const wantedEnd = expiresAt === undefined ? undefined : checkedEnd(expiresAt, nowMs);
    return await this.#parts.db.transaction().execute(async (tx) => {
      const { newest, tokens } = await this.#lock(tx, owner);
      // The caller sees the new token, and so could use its rights.
      const rights = [owner.kind === "inference" ? callingRights : rightsOf(newest)];
      await requireGrantable(tx, caller, { projectId: owner.projectId, rights });
      const { overlapSeconds } = rotation;
      const plan = planRotation({
        tokens,
        newest,
        wantedEnd,
        overlapMs: overlapSeconds * 1000,
        nowMs,
      });
      if (plan instanceof Fault) throw plan;
      const id = newTokenId();
      const key = this.#parts.keys.current();
      // The new token must be the newest of its account, even if the clock was set back.
      const createdAt = new Date(Math.max(nowMs, newest.created_at.getTime() + 1));
      const { kind, project_id, account_id, name, role, permissions, is_readable } = newest;
      const ofAccount = { kind, project_id, account_id, name, role, permissions, is_readable };
      const token = await addToken(tx, key, {
        ...ofAccount,
        id,
        created_at: createdAt,
        expires_at: plan.expiresAt,
      });
      await store.revokeTokens(tx, plan.revoked, new Date(nowMs));
      await store.shortenTokens(tx, plan.shortened, new Date(plan.overlapEndsAtMs));
      await notifyOf(tx, tokens);
      await record(tx, {
        projectId: owner.projectId,
        action: "token.rotate",
        by,
        resource: { type: owner.kind, id: owner.accountId, name },
        changes: {
          tokenId: { old: newest.id, new: id },
          expiresAt: { old: newest.expires_at, new: plan.expiresAt },
          oldValidUntil: { new: new Date(plan.overlapEndsAtMs) },
        },
      });
      return { account: await this.#view(tx, owner), token };
    });
  }

  /**
   * Ends all tokens of an account. Refuses to end the last operator token, since then nobody could
   * create another one.
   */
  async revoke(owner: TokenAccountRef, by: By): Promise<AccountView> {
    const now = new Date(this.#parts.clock.now());
    return await this.#parts.db.transaction().execute(async (tx) => {
      // Without this lock, two requests at the same time could revoke the last two operator tokens.
      if (owner.kind === "operator") await store.lockKind(tx, owner.kind);
      const { newest, tokens } = await this.#lock(tx, owner);
      if (owner.kind === "operator") {
        const others = { ...owner, now, except: owner.accountId };
        if ((await store.countActiveAccounts(tx, others)) === 0) {
          const text = "This is the last valid operator token: create another one first.";
          throw new Fault("conflict", text);
        }
      }
      const ids = tokens.map((token) => token.id);
      await store.revokeTokens(tx, ids, now);
      await notifyOf(tx, tokens);
      const resource = { type: owner.kind, id: owner.accountId, name: newest.name };
      await record(tx, { projectId: owner.projectId, action: "token.revoke", by, resource });
      return await this.#view(tx, owner);
    });
  }

  /**
   * Locks an account, and returns its tokens that are not revoked, newest first. Throws
   * `Fault("not_found")` when there are none.
   */
  async #lock(
    tx: Tx,
    owner: TokenAccountRef,
  ): Promise<{ newest: store.TokenRow; tokens: readonly store.TokenRow[] }> {
    const tokens = (await store.lockTokenAccount(tx, owner)).filter(
      (token) => token.revoked_at === null,
    );
    const [newest] = tokens;
    if (newest !== undefined) return { newest, tokens };
    throw new Fault(
      "not_found",
      `There is no ${kindNames[owner.kind]} with that id, or it was revoked.`,
    );
  }

  async #view(tx: Tx, owner: TokenAccountRef): Promise<AccountView> {
    const nowMs = this.#parts.clock.now();
    const [account] = await store.listAccounts(tx, { ...owner, limit: 1, now: new Date(nowMs) });
    if (account === undefined)
      throw new Fault("not_found", `There is no ${kindNames[owner.kind]} with that id.`);
    return accountView(account, nowMs);
  }
}

/** Makes every platform forget these tokens, and read them again when they are used. */
async function notifyOf(tx: Tx, tokens: readonly store.TokenRow[]): Promise<void> {
  for (const { id } of tokens) await notify(tx, "tokens", id);
}

function rightsOfWish(wish: Exclude<TokenWish, { kind: "operator" }>): Rights {
  if (wish.kind === "inference") return callingRights;
  return wish.role === null
    ? { role: null, permissions: wish.permissions ?? [] }
    : { role: wish.role, permissions: null };
}

/**
 * Throws `Fault("forbidden")` unless the caller, read again from the database, may create tokens
 * and has all these rights. An operator token (`projectId` null) has all rights, so its requester
 * must still be an operator.
 */
async function requireGrantable(
  tx: Tx,
  caller: Caller,
  granted: { readonly projectId: ProjectId | null; readonly rights: readonly Rights[] },
): Promise<void> {
  const { projectId, rights } = granted;
  const callerNow = await currentCaller(tx, caller, projectId);
  const needed = projectId === null ? "platform.manage" : "tokens.write";
  if (!allows(callerNow, needed, projectId))
    throw new Fault("forbidden", `You no longer have the permission ${needed}.`);
  if (projectId === null) return;
  for (const each of rights) requireRights(callerNow, each, projectId);
}

/** Whether two lists have the same texts in the same order. */
function same(one: readonly string[] | null, other: readonly string[] | null): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
