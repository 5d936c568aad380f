// Starts deployments by upload: one transaction creates the app if it is new, and adds a build that
// waits for its files.
import { createHash, randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { Permission } from "@slipway/contract/words.ts";
import { record, type By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import { appIdOf, freeAppId, shownAppId, type AppId, type ProjectId } from "#lib/ids.ts";
import { Secret } from "#lib/secret.ts";
import type { Tx } from "#store/database.ts";
import { toJson } from "#store/json.ts";
import { notify } from "#store/notify.ts";
import { recordOfApp } from "./app-audit.ts";
import * as store from "./app-store.ts";
import { requestChanges, dockerAuthContext, type AppsOptions, type CreatedApp } from "./app.ts";
import type { BuildReceiver, BuildRef, NewUpload } from "./build-receiver.ts";
import type { CreateRequest } from "./create-request.ts";
import { givenHardware } from "./hardware-fields.ts";
import { writeSettings } from "./settings-change-store.ts";
import { resolveSettings } from "./settings.ts";
import { readUploadRequest } from "./upload-request.ts";

/** A started deployment, with the key in the address that the files are uploaded to. */
export type StartedUpload = CreatedApp & { readonly uploadId: string; readonly key: Secret };

/** A deployment whose fields are allowed. */
export type CheckedUpload = { readonly request: CreateRequest; readonly name: string };
type Deployment = {
  readonly projectId: ProjectId;
  readonly checked: CheckedUpload;
  readonly by: By;
  /** Throws unless the caller has the permission. */
  readonly requires: (permission: Permission) => void;
  /** Set when the files are to run once, instead of becoming a release. */
  readonly fileRun?: {
    /** Called for an app that exists. Throws `Fault`. The app's row is locked. */
    check(tx: Tx, appId: AppId): Promise<void>;
    /** Called in the transaction that adds the build. */
    add(tx: Tx, build: BuildRef): Promise<void>;
  };
};
/** The parts of a build that depend on whether the app is new. */
type BuildInput = Pick<NewUpload, "appId" | "cause" | "request" | "configToml">;
type Options = Omit<AppsOptions, "builds" | "gitHosts"> & {
  readonly builds: Pick<BuildReceiver, "receiveUpload">;
};

/** Starts deployments. */
export class UploadDeployments {
  readonly #options: Options;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Checks the body of a deployment. Throws `Fault("malformed" | "invalid" | "not_usable")`. */
  check(body: unknown): CheckedUpload {
    const request = readUploadRequest(body);
    const { providers, whyNever } = this.#options;
    const resolved = resolveSettings({
      body: request.fields,
      configToml: request.configToml,
      providers,
    });
    const refusal = whyNever(givenHardware(resolved), "creator");
    if (refusal !== null) throw new Fault("invalid", refusal);
    return { request, name: resolved.settings.name };
  }

  /**
   * Throws `Fault("conflict")` when a deployed app has this name: a file run must not replace it.
   */
  async requireForFiles(projectId: ProjectId, name: string): Promise<void> {
    const { db } = this.#options;
    const appId = await store.findApp(db, projectId, name);
    const app = appId === undefined ? undefined : await store.readApp(db, appId);
    if (app !== undefined) refuseDeployed(app);
  }

  /**
   * Starts a deployment whose fields `check` has returned. Throws `Fault("forbidden" | "conflict" |
   * "rate_limited")`.
   */
  async start(deployment: Deployment): Promise<StartedUpload> {
    const { projectId, checked, by } = deployment;
    const { db, builds } = this.#options;
    // Whoever knows the address may upload, so nobody must be able to guess its key.
    const key = new Secret(randomBytes(32).toString("base64url"));
    return await db.transaction().execute(async (tx) => {
      const existing = await store.findApp(tx, projectId, checked.name);
      const app =
        existing === undefined
          ? await this.#create(tx, deployment)
          : await this.#update(tx, deployment, existing);
      const build = { projectId, ...app, by: by.actor, keyHash: hashOfUploadKey(key.reveal()) };
      const { buildId, status, uploadId } = await builds.receiveUpload(tx, build);
      await deployment.fileRun?.add(tx, { projectId, appId: app.appId, buildId });
      return {
        appId: shownAppId(app.appId),
        appName: checked.name,
        buildId,
        status,
        uploadId,
        key,
      };
    });
  }

  async #create(
    tx: Tx,
    { projectId, checked: { request, name }, by, fileRun }: Deployment,
  ): Promise<BuildInput> {
    // Deleted apps of this name keep their ids, so the new app may need another one.
    const appId = freeAppId(appIdOf(projectId, name), await store.idsOfName(tx, projectId, name));
    const { fields, configToml } = request;
    const isNew = await store.insertApp(tx, {
      id: appId,
      project_id: projectId,
      name,
      request: toJson({ ...fields, name }),
      config_toml: configToml,
      docker_auth_sealed: this.#seal(appId, request) ?? null,
      runs_files: fileRun !== undefined,
    });
    if (!isNew)
      throw new Fault(
        "conflict",
        `Another request created the app "${name}" just now; send this one again.`,
      );
    await recordOfApp(tx, {
      projectId,
      appId,
      name,
      action: "app.create",
      by,
      changes: requestChanges(request),
    });
    await notify(tx, "apps", appId);
    return { appId, cause: "create", request: { ...fields, name }, configToml };
  }

  /**
   * Updates an existing app. Settings that the API has set stay if the deployment leaves them out.
   * An app with a repository keeps its stored config_toml: the uploaded one is only for this build.
   */
  async #update(tx: Tx, deployment: Deployment, appId: AppId): Promise<BuildInput> {
    const { projectId, checked, by, requires, fileRun } = deployment;
    requires("builds.create");
    const app = await store.lockAppForChange(tx, { projectId, appId });
    if (fileRun !== undefined) refuseDeployed(app);
    await fileRun?.check(tx, appId);
    if (fileRun === undefined && app.runs_files) await store.endFileRuns(tx, appId);
    const { fields, configToml } = checked.request;
    const before = app.request as Readonly<Record<string, unknown>>;
    const request = { ...before, ...fields };
    const hasRepository = before["gitRepo"] !== undefined;
    const sealed = this.#seal(appId, checked.request);
    const areFieldsChanged = !isDeepStrictEqual(request, before);
    if (areFieldsChanged || sealed !== undefined) requires("apps.update");
    const settings = { request, configToml: hasRepository ? app.config_toml : configToml };
    await writeSettings(tx, appId, { ...settings, dockerAuthSealed: sealed });
    // When all fields repeat the stored values, none is recorded as a change.
    const changes = requestChanges({ ...checked.request, fields: areFieldsChanged ? fields : {} });
    const entry = { projectId, action: "build.create", by, changes } as const;
    await record(tx, { ...entry, resource: { type: "app", id: appId, name: checked.name } });
    await notify(tx, "apps", appId);
    return { appId, cause: "deploy", request, configToml };
  }

  /** The sealed registry credentials; undefined: the request has none, and stored ones stay. */
  #seal(appId: AppId, { dockerAuth }: CreateRequest): string | undefined {
    return dockerAuth === null
      ? undefined
      : this.#options.sealer.seal(dockerAuth.reveal(), dockerAuthContext(appId));
  }
}

/** Throws `Fault("conflict")` unless the app runs files. */
function refuseDeployed({
  name,
  runs_files: runsFiles,
}: Pick<store.AppRow, "name" | "runs_files">): void {
  if (runsFiles) return;
  throw new Fault(
    "conflict",
    `The app "${name}" was deployed, and a file that runs would take its place: run the file under another name, or call a function of the app (with async=true for a run).`,
  );
}

/** The stored form of the key in the address of an upload: its hash. */
export function hashOfUploadKey(key: string): Buffer {
  return createHash("sha256").update(key).digest();
}
