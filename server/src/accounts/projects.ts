// Projects and the people who own them.
import { randomUUID } from "node:crypto";
import { newProjectId, type ProjectId } from "#lib/ids.ts";
import { Fault } from "#lib/fault.ts";
import type { Secret } from "#lib/secret.ts";
import type { By } from "#audit/actor.ts";
import { record } from "#audit/record.ts";
import type { Db } from "#store/database.ts";
import {
  insertMember,
  insertPassword,
  insertPerson,
  insertProject,
  personByEmail,
  projectById,
  type ProjectRow,
} from "./account-store.ts";
import { hashPassword } from "./passwords.ts";

const nameLengthMost = 100;

/** The project, or null. */
export async function findProject(db: Db, id: ProjectId): Promise<ProjectRow | null> {
  return (await projectById(db, id)) ?? null;
}

/** Makes a project with an owner, who must be known. Throws `Fault` for a name that is empty or too long. */
export async function createProject(tx: Db, wanted: { name: string; ownerId: string; by: By }): Promise<ProjectId> {
  const name = wanted.name.trim();
  if (name === "" || name.length > nameLengthMost) {
    throw new Fault("invalid", `name is ${name.length} characters long, but must have 1 to ${nameLengthMost}.`);
  }
  const id = newProjectId();
  await insertProject(tx, { id, name });
  await insertMember(tx, { project_id: id, person_id: wanted.ownerId, role: "owner" });
  await record(tx, {
    projectId: id,
    action: "project.create",
    by: wanted.by,
    resource: { type: "project", id, name },
    changes: { name: { new: name } },
  });
  return id;
}

/** Makes a person; returns the id. Throws `Fault` when the address is taken. */
export async function createPerson(tx: Db, person: { email: string; name: string; password: Secret }): Promise<string> {
  const email = person.email.toLowerCase();
  if ((await personByEmail(tx, email)) !== undefined) throw new Fault("conflict", `email ${email} is taken.`);
  const id = randomUUID();
  await insertPerson(tx, { id, email, name: person.name });
  await insertPassword(tx, { personId: id, passwordHash: await hashPassword(person.password.reveal()) });
  return id;
}
