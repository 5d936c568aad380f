// Reads builds for the API, and handles requests to cancel or repeat one.
import { record, type By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import { type AppId, type AppKey, type BuildId, type ProjectId, shownAppId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { appOfBuild, hasApp, noSuchApp, readBuilds, type BuildRow } from "./app-store.ts";
import type { BuildReceiver, BuildRef, ReceivedBuild } from "./build-receiver.ts";

/** The maximum number of builds in a list. */
const buildsMax = 100;

/** Builds of apps. */
export class Builds {
  readonly #db: Db;
  readonly #receiver: BuildReceiver;
  readonly #onCancelled: () => void;

  /**
   * `onCancelled` is called when a cancellation has been committed: the build's files may no longer
   * be needed.
   */
  constructor(options: {
    readonly db: Db;
    readonly receiver: BuildReceiver;
    readonly onCancelled: () => void;
  }) {
    this.#db = options.db;
    this.#receiver = options.receiver;
    this.#onCancelled = options.onCancelled;
  }

  /**
   * The newest 100 builds of an app, newest first. Throws `Fault("not_found")` when the app does
   * not exist.
   */
  async list(projectId: ProjectId, appId: AppId): Promise<BuildRow[]> {
    const rows = await readBuilds(this.#db, { projectId, appId, limit: buildsMax });
    if (rows.length === 0 && !(await hasApp(this.#db, projectId, appId))) throw noSuchApp(appId);
    return rows;
  }

  /** Reads one build. Throws `Fault("not_found")`. */
  async get(ref: BuildRef): Promise<BuildRow> {
    const [row] = await readBuilds(this.#db, { ...ref, limit: 1 });
    if (row === undefined)
      throw new Fault("not_found", `The app ${shownAppId(ref.appId)} has no build ${ref.buildId}.`);
    return row;
  }

  /** The app of a build; null: the project has no such build. */
  async appOf(projectId: ProjectId, buildId: BuildId): Promise<AppId | null> {
    return await appOfBuild(this.#db, projectId, buildId);
  }

  /**
   * Requests that a build be cancelled, and returns the build as it then is. Throws
   * `Fault("not_found" | "conflict")`.
   */
  async cancel(ref: BuildRef, by: By): Promise<BuildRow> {
    await this.#db.transaction().execute(async (tx) => {
      const { status } = await this.#receiver.requestCancel(tx, ref);
      // A build that has begun ends by itself a moment later.
      const changes = { status: { new: status === "cancelled" ? status : "asked to end" } };
      await record(tx, {
        projectId: ref.projectId,
        action: "build.cancel",
        by,
        resource: resourceOf(ref),
        changes,
      });
    });
    this.#onCancelled();
    return await this.get(ref);
  }

  /**
   * Adds a build of a commit, or of the newest commit of a branch: of `branch`, else of the app's
   * own one. From then on pushes are deployed again. Throws `Fault("not_found" | "rate_limited")`.
   */
  async create(
    app: AppKey,
    { commit, branch, by }: { readonly commit?: string; readonly branch?: string; readonly by: By },
  ): Promise<ReceivedBuild> {
    return await this.#db.transaction().execute(async (tx) => {
      const build = await this.#receiver.receiveBuild(tx, {
        ...app,
        commit,
        branch,
        cause: "deploy",
        by: by.actor,
      });
      const sent = Object.entries({ commit, branch }).filter(([, value]) => value !== undefined);
      await record(tx, {
        projectId: app.projectId,
        action: "build.create",
        by,
        resource: resourceOf({ ...app, buildId: build.buildId }),
        changes: Object.fromEntries(sent.map(([name, value]) => [name, { new: value }])),
      });
      return build;
    });
  }

  /** Adds a build of the same commit and settings. Throws `Fault("not_found" | "rate_limited")`. */
  async rebuild(ref: BuildRef, by: By): Promise<ReceivedBuild> {
    return await this.#db.transaction().execute(async (tx) => {
      const build = await this.#receiver.rebuild(tx, { ...ref, by: by.actor });
      const changes = { buildId: { old: ref.buildId, new: build.buildId } };
      await record(tx, {
        projectId: ref.projectId,
        action: "build.rebuild",
        by,
        resource: resourceOf(ref),
        changes,
      });
      return build;
    });
  }
}

function resourceOf(ref: BuildRef): { type: string; id: string; name: string } {
  return { type: "build", id: ref.buildId, name: shownAppId(ref.appId) };
}
