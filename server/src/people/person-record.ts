// What people do with their own sign-in goes into the audit log of every project that they belong
// to: its owners want to know, whichever project the person had in mind. Of those who belong to
// none it is kept without a project.
import { anonymousActor, record, type Actor, type AuditEntry, type By } from "#audit/record.ts";
import type { Db } from "#store/database.ts";
import { membershipsOf } from "./people-store.ts";

/** Who it is about. `id` null: an address of mail that nobody has. */
export type About = { readonly id: string | null; readonly email: string; readonly name: string };

export type PersonEvent = Pick<AuditEntry, "action" | "by" | "outcome" | "changes" | "reason"> & {
  readonly about: About;
};

/** Nobody belongs to more for anything but a test. */
const projectsMax = 200;

/** Writes an entry for each project. */
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

/** The person acting through the request. */
export function byPerson(about: About, by: By): By {
  const actor: Actor = { type: "person", id: about.id, name: about.name };
  return { ...by, actor };
}

/** Somebody who is not known to be the person, through the request. */
export function byAnybody(by: By): By {
  return { ...by, actor: anonymousActor };
}
