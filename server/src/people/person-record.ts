// Records what people do with their sign-in in the audit log of every project of which they are
// members, since the owners of all these projects want to know. Actions of people without a project
// are recorded without one.
import { anonymousActor, record, type Actor, type AuditEntry, type By } from "#audit/record.ts";
import type { Db } from "#store/database.ts";
import { membershipsOf } from "./people-store.ts";

/** The person that an entry is about. */
export type About = {
  /** Null: nobody has this email address. */
  readonly id: string | null;
  readonly email: string;
  readonly name: string;
};

export type PersonEvent = Pick<AuditEntry, "action" | "by" | "outcome" | "changes" | "reason"> & {
  readonly about: About;
};

/** The maximum number of projects that get an entry; hardly any person is in as many. */
const projectsMax = 200;

/** Writes an entry for each project of the person, or one without a project. */
export async function recordOfPerson(tx: Db, event: PersonEvent): Promise<void> {
  const { about, ...entry } = event;
  const memberships = about.id === null ? [] : await membershipsOf(tx, about.id);
  const projects = memberships.slice(0, projectsMax).map(({ projectId }) => projectId);
  const resource = {
    type: "person",
    name: about.email,
    ...(about.id === null ? {} : { id: about.id }),
  };
  for (const projectId of projects.length === 0 ? [null] : projects) {
    await record(tx, { ...entry, projectId, resource });
  }
}

/** The request with the person as its actor. */
export function byPerson(about: About, by: By): By {
  const actor: Actor = { type: "person", id: about.id, name: about.name };
  return { ...by, actor };
}

/** The request with an anonymous actor, who is not known to be the person. */
export function byAnybody(by: By): By {
  return { ...by, actor: anonymousActor };
}
