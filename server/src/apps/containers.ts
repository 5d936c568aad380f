// Lists an app's replicas for the API, which calls them containers.
import { shownAppId, type AppId, type BuildId, type ProjectId, type ReplicaId } from "#lib/ids.ts";
import type { Db } from "#store/database.ts";
import { hasApp, noSuchApp, readReplicas, type ReplicaRow } from "./app-store.ts";

/** A replica that has not stopped. */
export type ContainerView = {
  readonly replicaId: ReplicaId;
  readonly appId: AppId;
  readonly projectId: ProjectId;
  readonly buildId: BuildId;
  readonly state: Exclude<ReplicaRow["state"], "stopped">;
  readonly createdAt: Date;
  readonly startedAt: Date | null;
  /** `host:port`, once it is known. */
  readonly address: string | null;
  readonly provider: string | null;
  readonly region: string | null;
};

const containersMax = 2000;

/** Replicas of apps. */
export class Containers {
  readonly #db: Db;

  constructor({ db }: { readonly db: Db }) {
    this.#db = db;
  }

  /** Oldest first. Throws `Fault("not_found")` when the app does not exist. */
  async list(projectId: ProjectId, appId: AppId): Promise<ContainerView[]> {
    if (!(await hasApp(this.#db, projectId, appId))) throw noSuchApp(appId);
    const rows = await readReplicas(this.#db, { appId, limit: containersMax });
    return rows.flatMap((row) => (row.state === "stopped" ? [] : [{ ...view(row), state: row.state }]));
  }
}

function view(row: ReplicaRow): Omit<ContainerView, "state"> {
  return {
    replicaId: row.id,
    appId: shownAppId(row.app_id),
    projectId: row.project_id,
    buildId: row.build_id,
    createdAt: row.created_at,
    startedAt: row.started_at,
    address: row.address,
    provider: row.provider,
    region: row.region,
  };
}
