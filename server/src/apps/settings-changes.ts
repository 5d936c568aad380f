// Changes the settings of an app: the change, the build that it adds and the audit row are one
// transaction.
import { isDeepStrictEqual } from "node:util";
import type { FieldName } from "@slipway/contract/app-fields.ts";
import type { By } from "#audit/record.ts";
import { must } from "#lib/assert.ts";
import { Fault } from "#lib/fault.ts";
import type { AppId, AppKey, BuildId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";
import { notify } from "#store/notify.ts";
import { recordOfApp } from "./app-audit.ts";
import { lockApp, noSuchApp } from "./app-store.ts";
import { dockerAuthContext } from "./app.ts";
import type { BuildReceiver } from "./build-receiver.ts";
import type { GitHosts } from "./repository.ts";
import { readChangeRequest, withRepository, type ChangeRequest } from "./create-request.ts";
import { hasHardware, type WhyNever } from "./hardware-fields.ts";
import {
  forgetHookEvents,
  readChangeable,
  type ChangeableApp,
  writeSettings,
} from "./settings-change-store.ts";
import { decideChange, type DecidedChange, type Need } from "./settings-change.ts";
import { readReleaseSettings } from "./stored-settings.ts";

export type ChangedApp = {
  readonly appName: string;
  readonly need: Need;
  readonly changed: readonly FieldName[];
  /** True when a release takes calls. */
  readonly isServed: boolean;
  /** The build that was started; null: none. */
  readonly build: {
    readonly buildId: BuildId;
    readonly number: number;
    /** The release that the build tries; null: the build first makes its release. */
    readonly releaseNumber: number | null;
  } | null;
};

type RequestedChange = AppKey & {
  readonly body: unknown;
  readonly isDryRun: boolean;
  readonly by: By;
  /** Called before a build is added; throws when no build may be added now. */
  readonly admit: () => void;
};

type Options = Pick<Foundation, "db" | "sealer"> & {
  readonly builds: Pick<BuildReceiver, "receiveBuild" | "receiveSettings">;
  /** Allowed values of the field provider. */
  readonly providers: readonly string[];
  readonly whyNever: WhyNever;
  /** Called when a change has been committed. */
  readonly refreshRoute: (appId: AppId) => Promise<void>;
  readonly gitHosts: GitHosts;
};

/** Changes of the settings of apps. */
export class SettingsChanges {
  readonly #options: Options;

  constructor(options: Options) {
    this.#options = options;
  }

  /**
   * Changes the settings of an app. Throws `Fault("not_found" | "malformed" | "invalid" |
   * "not_usable")`, or `Fault("conflict")` when another change came first. A dry run changes
   * nothing, and returns what the change would do.
   */
  async change(requested: RequestedChange): Promise<ChangedApp> {
    const { projectId, appId } = requested;
    const seen = await readChangeable(this.#options.db, { projectId, appId });
    if (seen === undefined) throw noSuchApp(appId);
    const change = withRepository(readChangeRequest(requested.body), this.#options.gitHosts);
    const decided = this.#decide(seen, change);
    // Without a need, the request changes nothing.
    if (requested.isDryRun || decided.need === null)
      return { ...decided, appName: seen.name, isServed: decided.next !== null, build: null };
    const done = await this.#options.db.transaction().execute(async (tx) => {
      await lockApp(tx, appId);
      const app = await readChangeable(tx, { projectId, appId });
      if (app === undefined) throw noSuchApp(appId);
      if (!isSame(seen, app)) throw changedMeanwhile();
      return await this.#carryOut(tx, {
        ...requested,
        app,
        change,
        decided: this.#decide(app, change),
      });
    });
    // A caller that has the answer finds the change in force.
    await this.#options.refreshRoute(appId);
    return done;
  }

  #decide(app: ChangeableApp, change: ChangeRequest): DecidedChange {
    const release = app.release === null ? null : readReleaseSettings(app.release);
    if (release instanceof Fault) throw release;
    const decided = decideChange({ ...app, change, release, providers: this.#options.providers });
    const needsCheck = hasHardware(decided.changed) && decided.next !== null;
    const refusal = needsCheck ? this.#options.whyNever(decided.next.settings, "owner") : null;
    // If hardware that can never be had were accepted, every later build would fail.
    if (refusal !== null) throw new Fault("invalid", refusal);
    return decided;
  }

  async #carryOut(
    tx: Tx,
    requested: RequestedChange & {
      readonly app: ChangeableApp;
      readonly change: ChangeRequest;
      readonly decided: DecidedChange;
    },
  ): Promise<ChangedApp> {
    const { projectId, appId, app, change, decided, by } = requested;
    const { need, changed, request, configToml } = decided;
    if (need === "replica" || need === "build") requested.admit();
    // Null removes the credentials, and undefined keeps them.
    const auth =
      change.dockerAuth &&
      this.#options.sealer.seal(change.dockerAuth.reveal(), dockerAuthContext(appId));
    await writeSettings(tx, appId, { request, configToml, dockerAuthSealed: auth });
    const changes = changesOf(requested);
    await recordOfApp(tx, { projectId, appId, name: app.name, action: "app.update", by, changes });
    if (changed.includes("gitRepo") || changed.includes("gitBranch"))
      await forgetHookEvents(tx, appId);
    await notify(tx, "apps", appId);
    const isServed = decided.next !== null;
    return { appName: app.name, need, changed, isServed, build: await this.#begin(tx, requested) };
  }

  /** Starts the build that the change needs; null: it needs none. */
  async #begin(
    tx: Tx,
    change: Pick<RequestedChange, "projectId" | "appId" | "by"> & {
      readonly app: ChangeableApp;
      readonly decided: DecidedChange;
    },
  ): Promise<ChangedApp["build"]> {
    const { projectId, appId, app, decided } = change;
    const build = { projectId, appId, by: change.by.actor };
    if (decided.need === "replica") {
      const release = must(app.release, "an app without a release is built").id;
      const settings = must(decided.next, "a release has settings");
      return await this.#options.builds.receiveSettings(tx, { ...build, release, settings });
    }
    if (decided.need !== "build") return null;
    // Builds the code of the newest release that takes calls: a change of settings deploys no newer
    // code, and none that was rolled back. Only another repository or branch means other code: its
    // newest commit.
    const isRepositoryChanged =
      decided.changed.includes("gitRepo") || decided.changed.includes("gitBranch");
    const source = isRepositoryChanged ? null : app.release;
    const commit = source?.commit_sha ?? undefined;
    const upload = source?.upload_id ?? undefined;
    const received = await this.#options.builds.receiveBuild(tx, {
      ...build,
      cause: "settings",
      commit,
      upload,
    });
    return { ...received, releaseNumber: null };
  }
}

/** Whether the app's settings are still those that were read before its row was locked. */
function isSame(seen: ChangeableApp, app: ChangeableApp): boolean {
  return (
    isDeepStrictEqual(seen.request, app.request) &&
    seen.configToml === app.configToml &&
    seen.dockerAuthSealed === app.dockerAuthSealed
  );
}

function changedMeanwhile(): Fault {
  return new Fault(
    "conflict",
    "Another request changed the settings of the app at the same time; read the app, and send the change again.",
  );
}

/** The changes for the audit log, without the earlier registry credentials, which stay sealed. */
function changesOf(update: {
  readonly app: ChangeableApp;
  readonly change: ChangeRequest;
  readonly decided: DecidedChange;
}): Record<string, { readonly old?: unknown; readonly new?: unknown }> {
  const { app, change, decided } = update;
  const before: Readonly<Record<string, unknown>> = { ...app.request, config_toml: app.configToml };
  const after: Readonly<Record<string, unknown>> = {
    ...decided.request,
    config_toml: decided.configToml,
    dockerAuth: change.dockerAuth,
  };
  return Object.fromEntries(
    decided.changed.map((name) => [name, { old: before[name], new: after[name] }]),
  );
}
