// Secrets of projects and apps: encrypted at rest, shown only to callers with permission, and
// passed to replicas at their start.
import { lockProject } from "#accounts/project-store.ts";
import { record, type By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId } from "#lib/ids.ts";
import { isObject } from "#lib/is-object.ts";
import type { Sealer } from "#lib/seal.ts";
import { Secret } from "#lib/secret.ts";
import type { Db } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import { hasApp, noSuchApp } from "./app-store.ts";
import { kindOf, shown } from "./refusal.ts";
import { secretNameRefusal, secretNameWarning } from "./secret-names.ts";
import * as store from "./secret-store.ts";

/** The maximum number of secrets of a project or of an app: all are in a replica's environment. */
const secretsMax = 1000;
/** The form of a name. Not every name is a shell variable; see `secretNameWarning`. */
const nameForm = /^[A-Za-z0-9_.-]{1,253}$/;
/** The maximum length of a value, in characters: more than chains of certificates need. */
const valueLengthMax = 65_536;

/** Maps names to values. */
export type SecretMap = ReadonlyMap<string, Secret>;

/** The actor, and whether to restart the apps that use the secrets. */
export type Replacing = { readonly by: By; readonly restarts: boolean };

/**
 * How many secrets changed, how many apps restart because of that, and warnings about the names
 * that were set.
 */
export type Replaced = {
  readonly changed: number;
  readonly restarted: number;
  readonly warnings: readonly string[];
};

/**
 * Parses the body of a request that replaces secrets: a flat object, `{}` to remove all of them.
 * Null values count as absent. Throws `Fault("malformed" | "invalid")`; a missing body throws too,
 * since it must not remove anything.
 */
export function readSecretMap(body: unknown): SecretMap {
  if (!isObject(body)) {
    throw new Fault(
      "malformed",
      `The body is ${kindOf(body)}, but must be a JSON object of names and values.`,
    );
  }
  const entries = Object.entries(body).filter(
    (entry): entry is [string, unknown] => entry[1] !== null,
  );
  if (entries.length > secretsMax) {
    throw new Fault(
      "invalid",
      `The body has ${entries.length} secrets, but must have at most ${secretsMax}.`,
    );
  }
  return new Map(entries.map(([name, value]) => [readName(name), readValue(name, value)]));
}

function readName(name: string): string {
  if (nameForm.test(name)) return name;
  const allowed = 'must be 1 to 253 letters, digits, "_", "." and "-"';
  throw new Fault("invalid", `The name of a secret is ${shown(name)}, but ${allowed}.`);
}

function readValue(name: string, value: unknown): Secret {
  const isText = typeof value === "string" && value.isWellFormed() && !value.includes("\0");
  if (isText && value.length <= valueLengthMax) return new Secret(value);
  const allowed = `a string of at most ${valueLengthMax} characters without the character NUL`;
  throw new Fault(
    "invalid",
    `The value of the secret ${shown(name)} is not shown here, but must be ${allowed}.`,
  );
}

/** Secrets of projects and apps. */
export class Secrets {
  readonly #db: Db;
  readonly #sealer: Sealer;

  constructor(options: { readonly db: Db; readonly sealer: Sealer }) {
    this.#db = options.db;
    this.#sealer = options.sealer;
  }

  /**
   * Reads the secrets of a scope; records the access. Throws `Fault("not_found")` when the app does
   * not exist.
   */
  async read(scope: store.SecretScope, by: By): Promise<SecretMap> {
    return await this.#db.transaction().execute(async (tx) => {
      await requireApp(tx, scope);
      const secrets = this.#open(scope, await store.readSealed(tx, scope));
      await record(tx, {
        projectId: scope.projectId,
        action: "secrets.read",
        by,
        resource: resourceOf(scope),
      });
      return secrets;
    });
  }

  /**
   * Replaces all secrets of a scope, and restarts the apps that use them if requested. Throws
   * `Fault("not_found")` when the app does not exist, and `Fault("invalid")` for a name that would
   * break apps, unless that secret stays as it was.
   */
  async replace(
    scope: store.SecretScope,
    secrets: SecretMap,
    { by, restarts }: Replacing,
  ): Promise<Replaced> {
    return await this.#db.transaction().execute(async (tx) => {
      await requireApp(tx, scope);
      await lockProject(tx, scope.projectId);
      const before = this.#open(scope, await store.readSealed(tx, scope));
      // A map, since a secret may have the name of a built-in object property.
      // Without `old` the secret is new, and without `new` it is removed.
      const changed = new Map<string, { old?: Secret; new?: Secret }>();
      const dropped = [...before].filter(([name]) => !secrets.has(name));
      for (const [name, old] of dropped) changed.set(name, { old });
      await store.dropSecrets(
        tx,
        scope,
        dropped.map(([name]) => name),
      );
      for (const [name, value] of secrets) {
        const old = before.get(name);
        if (old?.reveal() === value.reveal()) continue;
        const refusal = secretNameRefusal(name);
        if (refusal !== null) throw new Fault("invalid", refusal);
        await store.putSealed(tx, scope, {
          name,
          value_sealed: this.#sealer.seal(value.reveal(), secretContext(scope, name)),
        });
        changed.set(name, old === undefined ? { new: value } : { old, new: value });
      }
      const apps = restarts ? await store.restartApps(tx, scope) : [];
      for (const appId of apps) await notify(tx, "apps", appId);
      const changes = Object.fromEntries(changed);
      const setNames = [...secrets.keys()].filter((name) => changed.has(name));
      const warnings = setNames
        .map((name) => secretNameWarning(name))
        .filter((warning) => warning !== null);
      await record(tx, {
        projectId: scope.projectId,
        action: "secrets.update",
        by,
        resource: resourceOf(scope),
        // The entry for the restarts cannot collide with a secret: no name of one has a space.
        changes: restarts ? { ...changes, "(restarted apps)": { new: apps.length } } : changes,
      });
      return { changed: changed.size, restarted: apps.length, warnings };
    });
  }

  /**
   * Environment variables for a replica of the app: the project's secrets, overridden by the app's
   * own. Not recorded.
   */
  async environmentOf(appId: AppId): Promise<Record<string, Secret>> {
    const rows = await store.readSealedForApp(this.#db, appId);
    const opened = rows.map(({ project_id: projectId, app_id, ...row }) =>
      this.#open({ projectId, appId: app_id }, [row]),
    );
    // The project's secrets come first, so the app's own secrets replace those of the same names.
    return Object.fromEntries(opened.flatMap((secrets) => [...secrets]));
  }

  #open(scope: store.SecretScope, rows: readonly store.SealedSecret[]): SecretMap {
    return new Map(
      rows.map((row) => [
        row.name,
        this.#sealer.open(row.value_sealed, secretContext(scope, row.name)),
      ]),
    );
  }
}

async function requireApp(db: Db, { projectId, appId }: store.SecretScope): Promise<void> {
  if (appId !== null && !(await hasApp(db, projectId, appId))) throw noSuchApp(appId);
}

/** The encryption context of a secret. */
export function secretContext({ projectId, appId }: store.SecretScope, name: string): string {
  return `secret:${projectId}:${appId ?? ""}:${name}`;
}

function resourceOf({ projectId, appId }: store.SecretScope): { type: string; id: string } {
  return appId === null ? { type: "project", id: projectId } : { type: "app", id: appId };
}
