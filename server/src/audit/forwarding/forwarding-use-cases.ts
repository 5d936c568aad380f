// Sets, shows and ends the forwarding of a project's audit log. Called by the API; each change and
// its entry are one transaction.
import { randomUUID } from "node:crypto";
import type { z } from "zod";
import type { auditForwarding } from "@slipway/contract/audit-routes.ts";
import type { Sent } from "@slipway/contract/route.ts";
import { record, type By } from "#audit/record.ts";
import { chainOf, readHead } from "#audit/export/export-store.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Secret } from "#lib/secret.ts";
import { makeWebhookSecret, readWebhookSecret } from "#lib/webhook-signature.ts";
import type { Db, Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { notify } from "#store/notify.ts";
import * as store from "./forwarding-store.ts";

/** The requested forwarding. Without `secret`, the existing one stays, or a new one is created. */
export type ForwardingWish = { readonly url: string; readonly secret?: Secret | undefined };

/** The state of a forwarding; `url` without the query, which may contain a key of the receiver. */
type AuditForwarding = Sent<z.infer<typeof auditForwarding>>;

/** A new or changed forwarding, and its secret if this call created it. */
export type SetForwarding = {
  readonly forwarding: AuditForwarding;
  /** Null: not created by this call, and not shown again. */
  readonly secret: Secret | null;
};

/** The sealing context of a forwarding's secret. */
export function forwardingSecretContext(id: store.ForwardingId): string {
  return `audit-forwarding:${id}`;
}

type UseCaseParts = Pick<Foundation, "db" | "sealer"> & {
  /** Returns why a URL may not be called, as a sentence; null when it may be called. */
  readonly checkUrl: (url: string) => string | null;
};

/** The use cases. They throw `Fault("not_found" | "invalid")`. */
export class ForwardingUseCases {
  readonly #parts: UseCaseParts;

  constructor(parts: UseCaseParts) {
    this.#parts = parts;
  }

  /**
   * Sets the receiver of a project's entries. A first receiver gets the entry of this change and
   * all later ones; another receiver continues where its predecessor stopped.
   */
  async set(projectId: ProjectId, wish: ForwardingWish, by: By): Promise<SetForwarding> {
    const problem = this.#parts.checkUrl(wish.url);
    if (problem !== null) throw new Fault("invalid", `url cannot be called. ${problem}`);
    if (wish.secret !== undefined && readWebhookSecret(wish.secret.reveal()) === null) {
      throw new Fault(
        "invalid",
        "secret must be whsec_ and 24 to 64 bytes in base64 (the given value is not shown).",
      );
    }
    return await this.#parts.db.transaction().execute(async (tx) => {
      const before = await store.readProjectForwarding(tx, projectId, { lock: true });
      const newSecret = await this.#write(tx, { projectId, wish, before });
      await recordSet(tx, { projectId, by, before, wish });
      await notify(tx, "audit", projectId);
      return { forwarding: await show(tx, projectId), secret: newSecret };
    });
  }

  /** The current state of the forwarding. */
  async get(projectId: ProjectId): Promise<AuditForwarding> {
    return await show(this.#parts.db, projectId);
  }

  /** Ends the forwarding; a message under way may still arrive. */
  async delete(projectId: ProjectId, by: By): Promise<void> {
    await this.#parts.db.transaction().execute(async (tx) => {
      if (!(await store.deleteProjectForwarding(tx, projectId))) throw noForwarding();
      const resource = { type: "project", id: projectId };
      await record(tx, { projectId, action: "audit_log.forwarding_delete", by, resource });
    });
  }

  /** Writes the forwarding. Returns the secret if this call created it, and otherwise null. */
  async #write(
    tx: Tx,
    change: {
      readonly projectId: ProjectId;
      readonly wish: ForwardingWish;
      readonly before: store.ForwardingRow | undefined;
    },
  ): Promise<Secret | null> {
    const { projectId, wish, before } = change;
    const id = before?.id ?? randomUUID();
    const needsSecret = wish.secret === undefined && before === undefined;
    const newSecret = needsSecret ? makeWebhookSecret() : null;
    const secret = wish.secret ?? newSecret;
    // Without a secret in the wish, the existing one stays.
    let sealed = before?.secret_sealed ?? null;
    if (secret !== null)
      sealed = this.#parts.sealer.seal(secret.reveal(), forwardingSecretContext(id));
    if (before !== undefined) {
      await store.changeProjectForwarding(tx, { id, url: wish.url, secret_sealed: sealed });
      return newSecret;
    }
    const chain = chainOf(projectId);
    // The entry of this change comes after the head, so it is the first one that is sent.
    const { number } = await readHead(tx, chain);
    await store.insertProjectForwarding(tx, {
      id,
      chain,
      url: wish.url,
      secret_sealed: sealed,
      position: number,
    });
    return newSecret;
  }
}

type Change = {
  readonly projectId: ProjectId;
  readonly by: By;
  readonly before: store.ForwardingRow | undefined;
  readonly wish: ForwardingWish;
};

async function recordSet(tx: Tx, { projectId, by, before, wish }: Change): Promise<void> {
  const old = before?.url ?? null;
  // A first receiver has no old URL, and the secret is recorded only if the wish has one.
  const changes = {
    url: { ...(old === null ? {} : { old: withoutQuery(old) }), new: withoutQuery(wish.url) },
    ...(wish.secret === undefined ? {} : { secret: { new: wish.secret } }),
  };
  const resource = { type: "project", id: projectId };
  await record(tx, { projectId, action: "audit_log.forwarding_set", by, resource, changes });
}

async function show(db: Db, projectId: ProjectId): Promise<AuditForwarding> {
  const row = await store.readProjectForwarding(db, projectId);
  if (row?.url === undefined || row.url === null) throw noForwarding();
  const { number } = await readHead(db, chainOf(projectId));
  const state = stateOf(row);
  return {
    url: withoutQuery(row.url),
    state,
    createdAt: row.created_at,
    sentThrough: row.position,
    waiting: Math.max(0, number - row.position),
    lastSentAt: row.delivered_at,
    failingSince: row.failing_since,
    nextAttemptAt: state === "failing" ? row.due_at : null,
    reason: row.reason,
  };
}

function stateOf({ paused_at, failures }: store.ForwardingRow): AuditForwarding["state"] {
  if (paused_at !== null) return "paused";
  return failures > 0 ? "failing" : "active";
}

function withoutQuery(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

function noForwarding(): Fault {
  return new Fault("not_found", "The audit log of this project is not forwarded.");
}
