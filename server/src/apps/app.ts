// Creates and reads apps. A create writes the app, its first build and the audit row in one
// transaction.
import { buildAgain, changeField } from "@slipway/contract/advice.ts";
import { appFields } from "@slipway/contract/app-fields.ts";
import { allowedText } from "@slipway/contract/field.ts";
import { Fault } from "#lib/fault.ts";
import {
  appIdOf,
  appNameForm,
  freeAppId,
  shownAppId,
  type AppId,
  type BuildId,
  type ProjectId,
} from "#lib/ids.ts";
import type { By } from "#audit/record.ts";
import type { Foundation } from "#store/foundation.ts";
import { toJson } from "#store/json.ts";
import { notify } from "#store/notify.ts";
import * as store from "./app-store.ts";
import type { BuildReceiver } from "./build-receiver.ts";
import { recordOfApp } from "./app-audit.ts";
import type { GitHosts } from "./repository.ts";
import { readCreateRequest, withRepository, type CreateRequest } from "./create-request.ts";
import { givenHardware, type WhyNever } from "./hardware-fields.ts";
import { resolveSettings } from "./settings.ts";
import { shownSettings, type ShownSettings } from "./shown-settings.ts";
import { readReleaseSettings, releaseSettings } from "./stored-settings.ts";

export type AppsOptions = Pick<Foundation, "db" | "sealer"> & {
  readonly builds: Pick<BuildReceiver, "receiveBuild">;
  /** Allowed values of the field provider. */
  readonly providers: readonly string[];
  /** Says why hardware that a request asks for can never be had here. */
  readonly whyNever: WhyNever;
  readonly gitHosts: GitHosts;
};

export type CreatedApp = {
  readonly appId: AppId;
  readonly appName: string;
  readonly buildId: BuildId;
  readonly status: store.BuildRow["status"];
};

/**
 * An app with the settings of its live release; before the first release, the settings known so
 * far.
 */
export type AppDetail = store.AppWithState & ShownSettings;

/** Projects have fewer apps; the limit only bounds the response. */
const appsMax = 10_000;
/** Projects run fewer replicas; the limit only bounds the response. */
const replicasMax = 2000;
/** The maximum number of ended replicas in a list, enough to see why replicas ended lately. */
const endedReplicasMax = 50;

/** Apps of projects. */
export class Apps {
  readonly #options: AppsOptions;

  constructor(options: AppsOptions) {
    this.#options = options;
  }

  /**
   * Validates a create request as far as possible without reading the repository. Throws
   * `Fault("malformed" | "invalid")`.
   */
  check(body: unknown): { readonly request: CreateRequest; readonly name: string } {
    const request = withRepository(readCreateRequest(body), this.#options.gitHosts);
    const { fields, configToml } = request;
    if (fields["gitRepo"] === undefined) {
      throw new Fault(
        "invalid",
        `gitRepo is missing; it must be ${allowedText(appFields.gitRepo)}.`,
      );
    }
    const resolved = resolveSettings({
      body: fields,
      configToml,
      providers: this.#options.providers,
    });
    const refusal = this.#options.whyNever(givenHardware(resolved), "creator");
    if (refusal !== null) throw new Fault("invalid", refusal);
    return { request, name: resolved.settings.name };
  }

  /**
   * Creates the app from the result of `check`. Throws `Fault("conflict")` when the name is taken.
   */
  async create(newApp: {
    readonly projectId: ProjectId;
    readonly checked: { readonly request: CreateRequest; readonly name: string };
    readonly by: By;
  }): Promise<CreatedApp> {
    const { projectId, by } = newApp;
    const { request, name } = newApp.checked;
    return await this.#options.db.transaction().execute(async (tx) => {
      // Deleted apps of this name keep their ids, so the new app may need another one.
      const appId = freeAppId(appIdOf(projectId, name), await store.idsOfName(tx, projectId, name));
      // Null when the request has no registry credentials.
      const dockerAuthSealed =
        request.dockerAuth &&
        this.#options.sealer.seal(request.dockerAuth.reveal(), dockerAuthContext(appId));
      const isNew = await store.insertApp(tx, {
        id: appId,
        project_id: projectId,
        name,
        request: toJson(request.fields),
        config_toml: request.configToml,
        docker_auth_sealed: dockerAuthSealed,
      });
      if (!isNew) {
        throw new Fault(
          "conflict",
          `name is "${name}", but the project already has an app with that name. Choose another name, ${buildAgain}, change it (${changeField}) or delete it (DELETE …/apps/{app}).`,
        );
      }
      const build = { projectId, appId, cause: "create", by: by.actor } as const;
      const { buildId, status } = await this.#options.builds.receiveBuild(tx, build);
      await recordOfApp(tx, {
        projectId,
        appId,
        name,
        action: "app.create",
        by,
        changes: requestChanges(request),
      });
      await notify(tx, "apps", appId);
      return { appId: shownAppId(appId), appName: name, buildId, status };
    });
  }

  /** The id of the app with the name. Throws `Fault("not_found")`. */
  async resolve(projectId: ProjectId, name: string): Promise<AppId> {
    if (!appNameForm.test(name))
      throw new Fault("not_found", "The project has no app with that id.");
    const appId = await store.findApp(this.#options.db, projectId, name);
    if (appId === undefined) throw store.noSuchApp(appIdOf(projectId, name));
    return appId;
  }

  /** All apps of a project, by name. */
  async list(projectId: ProjectId): Promise<store.AppWithState[]> {
    return await store.readApps(this.#options.db, { projectId, limit: appsMax });
  }

  /** One app. Throws `Fault("not_found" | "not_usable")`. */
  async get(projectId: ProjectId, appId: AppId): Promise<AppDetail> {
    const { db } = this.#options;
    const [row] = await store.readApps(db, { projectId, appId, limit: 1 });
    if (row === undefined) throw store.noSuchApp(appId);
    const source = await store.readAppSource(db, appId);
    if (source === undefined) throw store.noSuchApp(appId);
    return { ...row, ...this.#settings(source) };
  }

  /** Throws `Fault("not_found")` when the app does not exist in the project. */
  async require(projectId: ProjectId, appId: AppId): Promise<void> {
    if (!(await store.hasApp(this.#options.db, projectId, appId))) throw store.noSuchApp(appId);
  }

  /** Lists the app's replicas that have not stopped, oldest first. Throws `Fault("not_found")`. */
  async replicas(projectId: ProjectId, appId: AppId): Promise<store.ReplicaRow[]> {
    await this.require(projectId, appId);
    return await store.readReplicas(this.#options.db, { appId }, replicasMax);
  }

  /** The replicas that have stopped last, the newest first. Throws `Fault("not_found")`. */
  async endedReplicas(projectId: ProjectId, appId: AppId): Promise<store.ReplicaRow[]> {
    await this.require(projectId, appId);
    return await store.readEndedReplicas(this.#options.db, appId, endedReplicasMax);
  }

  /** Lists the replicas of all apps of a project. */
  async replicasOf(projectId: ProjectId): Promise<store.ReplicaRow[]> {
    return await store.readReplicas(this.#options.db, { projectId }, replicasMax);
  }

  #settings(source: store.AppSource): ShownSettings {
    const release = source.settings === null ? null : readReleaseSettings(source);
    if (release instanceof Fault) throw release;
    return shownSettings({
      request: source.request as Readonly<Record<string, unknown>>,
      configToml: source.config_toml,
      release,
      latest: source.latest_settings === null ? null : releaseSettings(source.latest_settings),
      providers: this.#options.providers,
    });
  }
}

/** The encryption context of an app's registry credentials. */
export function dockerAuthContext(appId: AppId): string {
  return `docker-auth:${appId}`;
}

/** The status of an app, as the API shows it. */
export function appStatusOf(
  row: store.AppWithState,
): "ACTIVE" | "PENDING" | "BUILDING" | "FAILED" | "STOPPED" {
  if (row.stopped_at !== null) return "STOPPED";
  if (row.live_build_id !== null) return "ACTIVE";
  if (row.latest_status === "pending" || row.latest_status === null) return "PENDING";
  return row.latest_status === "building" || row.latest_status === "initializing"
    ? "BUILDING"
    : "FAILED";
}

/** The values that a request sets, for the audit log, which masks the registry credentials. */
export function requestChanges(request: CreateRequest): Record<string, { new: unknown }> {
  const { fields, configToml, dockerAuth } = request;
  const extra = {
    ...(configToml === null ? {} : { config_toml: configToml }),
    ...(dockerAuth === null ? {} : { dockerAuth }),
  };
  return Object.fromEntries(
    Object.entries({ ...fields, ...extra }).map(([name, value]) => [name, { new: value }]),
  );
}
