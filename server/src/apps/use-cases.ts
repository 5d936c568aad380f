// All that the management API does with apps, made in one place for the platform and for tests.
import type { Sealer } from "#lib/seal.ts";
import type { Db } from "#store/database.ts";
import { Apps } from "./app.ts";
import { Attempts } from "./attempts.ts";
import type { BuildReceiver } from "./build-receiver.ts";
import { Builds } from "./builds.ts";
import { Containers } from "./containers.ts";
import { Credentials } from "./credentials.ts";
import { ProjectList } from "./project-list.ts";
import { Secrets } from "./secrets.ts";

export type UseCases = {
  readonly apps: Apps;
  readonly builds: Builds;
  readonly containers: Containers;
  readonly secrets: Secrets;
  readonly credentials: Credentials;
  readonly projects: ProjectList;
  readonly attempts: Attempts;
};

/** Holds no state of its own: nothing is to be closed. */
export function useCases(options: {
  readonly db: Db;
  readonly sealer: Sealer;
  /** `deploy/receive.ts`. */
  readonly receiver: BuildReceiver;
  /** Identifiers that the field provider may name. */
  readonly providers: readonly string[];
  /** Hears of people whose projects have changed, after the commit. */
  readonly personChanged: (personId: string) => void;
}): UseCases {
  const { db, sealer, receiver, providers, personChanged } = options;
  return {
    apps: new Apps({ db, sealer, builds: receiver, providers }),
    builds: new Builds({ db, receiver }),
    containers: new Containers({ db }),
    secrets: new Secrets({ db, sealer }),
    credentials: new Credentials({ db, sealer }),
    projects: new ProjectList({ db, personChanged }),
    attempts: new Attempts({ db }),
  };
}
