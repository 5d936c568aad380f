// Creates the use cases of the management API that concern apps. The platform and tests call it.
import { record, type AuditEntry } from "#audit/record.ts";
import type { Clock } from "#lib/clock.ts";
import type { AppId, ReplicaId } from "#lib/ids.ts";
import type { Sealer } from "#lib/seal.ts";
import type { Db } from "#store/database.ts";
import { Apps } from "./app.ts";
import { AppLifecycle } from "./app-lifecycle.ts";
import type { BuildReceiver } from "./build-receiver.ts";
import { Builds } from "./builds.ts";
import { Credentials } from "./credentials.ts";
import type { WhyNever } from "./hardware-fields.ts";
import { ProjectList } from "./project-list.ts";
import type { GitHosts } from "./repository.ts";
import { Releases, type IsThere } from "./releases.ts";
import { RollOuts } from "./roll-outs.ts";
import { Secrets } from "./secrets.ts";
import { SettingsChanges } from "./settings-changes.ts";
import { UploadDeployments } from "./upload-deployments.ts";

/** All use cases of the management API for apps. */
export type UseCases = ReturnType<typeof useCases>;

/** Creates the use cases. They hold no state, so there is nothing to close. */
export function useCases(options: {
  readonly db: Db;
  readonly sealer: Sealer;
  readonly clock: Clock;
  /** Implemented by `deploy/receive.ts` and `deploy/end-builds.ts`. */
  readonly receiver: BuildReceiver;
  /** Allowed values of the field provider. */
  readonly providers: readonly string[];
  readonly gitHosts: GitHosts;
  readonly whyNever: WhyNever;
  /** The maximum number of projects that one person may own. */
  readonly projectsPerPerson: number;
  readonly isThere: IsThere;
  /** Called after the commit of a change of settings. */
  readonly refreshRoute: (appId: AppId) => Promise<void>;
  /** Called after the commit with each person whose projects have changed. */
  readonly personChanged: (personId: string) => void;
  /** Called after the commit when apps were deleted. */
  readonly onDeleted: () => void;
  /** Called after the commit when a build was cancelled. */
  readonly onCancelled: () => void;
}) {
  const { db, sealer, receiver, providers, personChanged, onDeleted, clock } = options;
  const { whyNever, gitHosts, refreshRoute, isThere, onCancelled } = options;
  return {
    apps: new Apps({ db, sealer, builds: receiver, providers, whyNever, gitHosts }),
    uploadDeployments: new UploadDeployments({ db, sealer, builds: receiver, providers, whyNever }),
    lifecycle: new AppLifecycle({ db, onDeleted }),
    settingsChanges: new SettingsChanges({
      db,
      sealer,
      builds: receiver,
      providers,
      whyNever,
      gitHosts,
      refreshRoute,
    }),
    builds: new Builds({ db, receiver, onCancelled }),
    releases: new Releases({ db, builds: receiver, isThere }),
    rollOuts: new RollOuts({ db, clock }),
    secrets: new Secrets({ db, sealer }),
    credentials: new Credentials({ db, sealer }),
    projects: new ProjectList({
      db,
      personChanged,
      onDeleted,
      ownedMax: options.projectsPerPerson,
    }),
    /** Records an action on a replica. It needs no transaction, since no row changes with it. */
    recordOfReplica: (
      entry: Omit<AuditEntry, "resource"> & { readonly replicaId: ReplicaId },
    ): Promise<void> => {
      const { replicaId, ...rest } = entry;
      return record(db, { ...rest, resource: { type: "replica", id: replicaId } });
    },
    /**
     * Records an attempt that was refused or failed; it needs no transaction, since no row changes
     * with it.
     */
    recordFailure: (attempt: Omit<AuditEntry, "outcome">): Promise<void> =>
      record(db, { ...attempt, outcome: "failure" }),
  };
}
