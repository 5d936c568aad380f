// What this area needs of `deploy`, which it may not know: taking on builds and ending them. The platform connects the two.
import type { AppId, BuildId, ProjectId } from "#lib/ids.ts";
import type { Tx } from "#store/database.ts";
import type { BuildsTable } from "#store/tables.ts";

type Status = BuildsTable["status"];

/** A build to take on. `request` is the app's request body without dockerAuth. */
export type NewBuild = {
  readonly projectId: ProjectId;
  readonly appId: AppId;
  readonly cause: BuildsTable["cause"];
  readonly request: Readonly<Record<string, unknown>>;
  readonly configToml: string | null;
};

export type ReceivedBuild = { readonly buildId: BuildId; readonly number: number; readonly status: Status };

/** Takes on builds and ends them, within the caller's transaction; `deploy/receive.ts` is one. */
export interface BuildReceiver {
  receiveBuild(tx: Tx, build: NewBuild): Promise<ReceivedBuild>;
  rebuild(tx: Tx, build: BuildRef): Promise<ReceivedBuild>;
  requestCancel(tx: Tx, build: BuildRef): Promise<{ readonly status: Status }>;
}

/** Which build, of which app, in which project. */
export type BuildRef = { readonly projectId: ProjectId; readonly appId: AppId; readonly buildId: BuildId };
