// Use cases for the hook address of an app, and for the deliveries of push events that git hosts
// send there: making the address; receiving, listing and replaying deliveries. Each change and its
// audit row are one transaction.
import { randomBytes } from "node:crypto";
import { recordOfApp } from "#apps/app-audit.ts";
import { hasApp, noSuchApp } from "#apps/app-store.ts";
import type { GitHosts } from "#apps/repository.ts";
import { record, type By } from "#audit/record.ts";
import { commitText } from "#deploy/source.ts";
import { Fault } from "#lib/fault.ts";
import {
  newGitDeliveryId,
  uuidForm,
  type AppId,
  type GitDeliveryId,
  type ProjectId,
} from "#lib/ids.ts";
import { numberTokens, pageOf, type Page } from "#lib/page-token.ts";
import { RateLimit } from "#lib/rate-limit.ts";
import type { Secret } from "#lib/secret.ts";
import { makeWebhookSecret } from "#lib/webhook-signature.ts";
import type { Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { toJson } from "#store/json.ts";
import { isFolderTouched, judgePush, type Judgement, type PushedApp } from "./judge.ts";
import type { RefUpdate } from "./push-bodies.ts";
import * as store from "./push-store.ts";
import { eventOf, readPush, type Headers } from "./read-push.ts";

/** The app in the path of a request. */
export type AppRef = { readonly projectId: ProjectId; readonly appId: AppId };
/** A delivery as it is listed. */
export type GitDelivery = Omit<
  store.GitDeliveryRow,
  "before_sha" | "is_touched" | "delivery_key" | "report_tries" | "report_at"
>;

/**
 * The maximum number of requests with a wrong signature per hook, client and minute; and of
 * requests with a wrong address per client and minute.
 */
const strangersMax = 30;
/** The maximum number of refused deliveries that are stored per app and minute. */
const refusedMax = 5;
/** The maximum number of signed deliveries per app and minute; a busy team sends a few. */
const deliveriesMax = 120;
/** 24 random bytes in base64url, see `make`. */
const addressForm = /^[\w-]{32}$/;
const pageTokens = numberTokens("git-deliveries");

/** `onDelivery` is called when a delivery may wait for its verdict. */
type GitHooksParts = Pick<Foundation, "db" | "sealer" | "clock"> & {
  readonly hosts: GitHosts;
  readonly onDelivery: () => void;
};

/** Use cases of hook addresses and push events; their methods throw `Fault`. */
export class GitHooks {
  readonly #parts: GitHooksParts;
  readonly #strangers: RateLimit;
  readonly #refused: RateLimit;
  readonly #deliveries: RateLimit;

  constructor(parts: GitHooksParts) {
    const { clock } = parts;
    this.#parts = parts;
    this.#strangers = new RateLimit({ max: strangersMax, clock });
    this.#refused = new RateLimit({ max: refusedMax, clock });
    this.#deliveries = new RateLimit({ max: deliveriesMax, clock });
  }

  /**
   * Makes the hook address of an app. If the app has one, makes only a new secret for it; the old
   * secret is invalid at once.
   */
  async make(
    { projectId, appId }: AppRef,
    by: By,
  ): Promise<{ readonly hook: store.HookRow; readonly secret: Secret }> {
    const secret = makeWebhookSecret();
    const secretSealed = this.#parts.sealer.seal(secret.reveal(), hookSecretContext(appId));
    return await this.#parts.db.transaction().execute(async (tx) => {
      const app = await this.#lock(tx, { projectId, appId });
      const hook = await store.putHook(tx, {
        appId,
        address: randomBytes(24).toString("base64url"),
        secretSealed,
      });
      await recordOfApp(tx, { projectId, appId, name: app.name, action: "git_hook.create", by });
      return { hook, secret };
    });
  }

  /** The hook of an app, without its secret. Throws `Fault("not_found")`. */
  async get(app: AppRef): Promise<store.HookRow> {
    await this.#require(app);
    const hook = await store.readHook(this.#parts.db, "app_id", app.appId);
    if (hook !== undefined) return hook;
    throw new Fault(
      "not_found",
      "The app has no hook address yet: make one (POST …/apps/{app}/git-hook).",
    );
  }

  /** A page of deliveries, newest first. */
  async list(
    app: AppRef,
    { pageSize, nextToken }: { readonly pageSize: number; readonly nextToken: string | null },
  ): Promise<Page<GitDelivery>> {
    await this.#require(app);
    const query = [app.appId];
    const before = pageTokens.read(query, nextToken)?.number;
    const rows = await store.listDeliveries(this.#parts.db, {
      appId: app.appId,
      before,
      limit: pageSize + 1,
    });
    return pageOf(rows, pageSize, (last) => pageTokens.make(query, last));
  }

  /**
   * Adds a copy of a delivery, which is judged by the present settings and the present branch.
   * Throws `Fault("not_found" | "conflict")`: a delivery that was refused, or that still waits,
   * cannot be replayed.
   */
  async replay(app: AppRef, deliveryId: string, by: By): Promise<GitDelivery> {
    const added = await this.#parts.db.transaction().execute(async (tx) => {
      const row = await this.#lock(tx, app);
      const id = deliveryId as GitDeliveryId;
      const old = uuidForm.test(deliveryId)
        ? await store.readDelivery(tx, app.appId, id)
        : undefined;
      if (old === undefined) throw new Fault("not_found", "The app has no such git delivery.");
      if (old.verdict === "refused" || old.verdict === "waiting") {
        throw new Fault(
          "conflict",
          `The delivery is ${old.verdict} (${old.reason}), so it cannot be replayed.`,
        );
      }
      const pushed = store.pushedApp(row);
      const update = updateOf(old);
      const updates = update === null ? [] : [update];
      const { verdict, reason } = judgePush(
        pushed,
        { event: old.event, updates },
        this.#parts.hosts,
      );
      // The database gives the copy a number of its own. The other columns stay the same, except
      // for those that follow after `same`.
      const { number: _, ...same } = old;
      const replayed = await store.addDelivery(tx, {
        ...same,
        ...unreported,
        id: newGitDeliveryId(),
        delivery_key: null,
        verdict,
        reason,
        build_id: null,
        replay_of: old.id,
        replayed_by: toJson(by.actor),
        received_at: new Date(this.#parts.clock.now()),
      });
      const resource = { type: "git_delivery", id: old.id };
      const changes = { replay: { new: replayed.id } };
      await record(tx, {
        projectId: app.projectId,
        action: "git_deliveries.replay",
        by,
        resource,
        changes,
      });
      return replayed;
    });
    this.#parts.onDelivery();
    return added;
  }

  /**
   * Finds the hook with this address; called before the request's body is read. Throws
   * `Fault("not_found" | "rate_limited")`.
   */
  async admit(address: string, client: string): Promise<store.HookRow> {
    const hook = addressForm.test(address)
      ? await store.readHook(this.#parts.db, "address", address)
      : undefined;
    const refusal = this.#strangers.refusal(strangerOf(hook?.app_id, client));
    if (refusal !== null) throw refusal;
    if (hook === undefined) {
      this.#strangers.tryTake(strangerOf(undefined, client));
      throw new Fault("not_found", "There is no hook with this address.");
    }
    return hook;
  }

  /**
   * Stores a delivery and its first verdict. Throws `Fault("unauthorized" | "malformed" |
   * "rate_limited")`.
   */
  async receive(
    hook: store.HookRow,
    {
      headers,
      body,
      client,
    }: { readonly headers: Headers; readonly body: Buffer; readonly client: string },
  ): Promise<GitDelivery> {
    const { app_id: appId } = hook;
    const found = eventOf(headers, body);
    if (found === null) {
      throw new Fault(
        "malformed",
        "This is not an event of GitHub, Gitea, Forgejo, GitLab or Bitbucket: no header names one.",
      );
    }
    const secret = this.#parts.sealer.open(hook.secret_sealed, hookSecretContext(appId)).reveal();
    const push = readPush(found, { headers, body, secret, nowMs: this.#parts.clock.now() });
    const base = {
      // A refused delivery has only these columns, and a verdict with its reason.
      id: newGitDeliveryId(),
      app_id: appId,
      host: found.host.kind,
      // The second argument only chooses the maximum length.
      event: commitText(found.event, "author"),
    };
    if (!push.ok) {
      if (!push.isSigned) this.#strangers.tryTake(strangerOf(appId, client));
      if (this.#refused.tryTake(appId)) {
        const refused = { ...base, verdict: "refused", reason: push.reason } as const;
        await this.#parts.db.transaction().execute((tx) => store.addDelivery(tx, refused));
      }
      throw new Fault(push.isSigned ? "malformed" : "unauthorized", `Refused: ${push.reason}.`);
    }
    this.#deliveries.take(appId);
    const delivery = await this.#parts.db.transaction().execute(async (tx) => {
      const app = await store.readPushedApp(tx, appId);
      if (app === undefined) throw noSuchApp(appId);
      const pushed = store.pushedApp(app);
      const given = { event: found.event, ...push };
      const { update, isOwn, isForeign, ...judgement } = judgePush(
        pushed,
        given,
        this.#parts.hosts,
      );
      const delivered = await store.addDelivery(tx, {
        ...base,
        delivery_key: found.deliveryKey,
        ...columnsOf(pushed, judgement, update),
      });
      // The hook is updated only after `addDelivery`, whose new row refers to the app and locks it.
      // A change of an app locks the app before its hook; another order could lead to a deadlock.
      if (isOwn || isForeign) await store.noteReceived(tx, appId, isOwn);
      return delivered;
    });
    this.#parts.onDelivery();
    return delivery;
  }

  async #require({ projectId, appId }: AppRef): Promise<void> {
    if (!(await hasApp(this.#parts.db, projectId, appId))) throw noSuchApp(appId);
  }

  /** Reads the app and locks its row. Throws `Fault("not_found" | "conflict")`. */
  async #lock(tx: Tx, { projectId, appId }: AppRef): Promise<store.PushedAppRow> {
    const app = await store.readPushedApp(tx, appId, { isLocked: true });
    // An app without a row here has no repository, or does not exist, which `#require` refuses.
    if (app === undefined) await this.#require({ projectId, appId });
    if (app === undefined)
      throw new Fault("conflict", "The app has no repository: its files are uploaded.");
    if (app.project_id !== projectId) throw noSuchApp(appId);
    return app;
  }
}

/** The context that seals the secret of a hook. */
export function hookSecretContext(appId: AppId): string {
  return `git-hook:${appId}`;
}

/** The columns of a delivery whose verdict was not yet reported to the git host. */
const unreported = {
  reported: null,
  report_failure: null,
  report_tries: 0,
  report_at: null,
} as const;

function columnsOf(app: PushedApp, { verdict, reason }: Judgement, update: RefUpdate | undefined) {
  if (update === undefined) return { verdict, reason };
  return {
    verdict,
    reason,
    ref: commitText(update.ref, "author"),
    before_sha: update.before,
    commit_sha: update.after,
    message: update.message === null ? null : commitText(update.message, "message"),
    author: update.author === null ? null : commitText(update.author, "author"),
    is_touched: isFolderTouched(app, update),
  };
}

/** The update of a push as far as its delivery keeps it; null: the delivery names no ref. */
function updateOf({
  ref,
  before_sha,
  commit_sha,
  message,
  author,
}: store.GitDeliveryRow): RefUpdate | null {
  if (ref === null) return null;
  return {
    ref,
    before: before_sha,
    after: commit_sha,
    message,
    author,
    // The names of the changed files are not stored.
    files: [],
    isComplete: false,
  };
}

/**
 * The key for counting requests of strangers. It contains the app, because git services send the
 * events of all their users from a few network addresses: a user who does not know an app's hook
 * must not silence that hook.
 */
function strangerOf(appId: AppId | undefined, client: string): string {
  return `${appId ?? ""} ${client}`;
}
