// Creates, renames and deletes projects, and creates the people who own them.
import { randomUUID } from "node:crypto";
import { newProjectId, type ProjectId } from "#lib/ids.ts";
import { Fault } from "#lib/fault.ts";
import type { Secret } from "#lib/secret.ts";
import { record, type By } from "#audit/record.ts";
import type { Db, Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import { insertPassword, insertPerson } from "./account-store.ts";
import { hashPassword } from "./passwords.ts";
import * as store from "./project-store.ts";
import { checkedName } from "./tokens.ts";

/** The project, or null. */
export async function findProject(db: Db, id: ProjectId): Promise<store.ProjectRow | null> {
  return (await store.projectById(db, id)) ?? null;
}

/**
 * Creates a project. `ownerId` must exist; null: the project has no members yet. Throws `Fault` for
 * an empty or too long name, and when the owner already owns `ownedMax` projects.
 */
export async function createProject(
  tx: Db,
  project: { name: string; ownerId: string | null; by: By; ownedMax?: number },
): Promise<ProjectId> {
  const name = checkedName(project.name);
  const { ownerId, by, ownedMax = Number.POSITIVE_INFINITY } = project;
  const owned = ownerId === null ? 0 : await store.countOwned(tx, ownerId);
  if (owned >= ownedMax) {
    const text = `You own ${owned} projects, and the limit for one person is ${ownedMax} (SLIPWAY_PROJECTS_PER_PERSON): delete one that you do not need, or ask the operator of the platform.`;
    throw new Fault("conflict", text);
  }
  const id = newProjectId();
  await store.insertProject(tx, { id, name });
  if (ownerId !== null)
    await store.insertMember(tx, { project_id: id, person_id: ownerId, role: "owner" });
  await record(tx, {
    projectId: id,
    action: "project.create",
    by,
    resource: { type: "project", id, name },
    changes: { name: { new: name } },
  });
  if (ownerId !== null) await notify(tx, "people", ownerId);
  return id;
}

/** Renames a project. Throws `Fault` when it does not exist, or for an empty or too long name. */
export async function renameProject(
  tx: Tx,
  change: { id: ProjectId; name: string; by: By },
): Promise<Pick<store.ProjectRow, "id" | "name" | "created_at">> {
  const { id, by } = change;
  const name = checkedName(change.name);
  const row = await store.lockProject(tx, id);
  await store.setProjectName(tx, id, name);
  await record(tx, {
    projectId: id,
    action: "project.update",
    by,
    resource: { type: "project", id, name },
    changes: { name: { old: row.name, new: name } },
  });
  return { ...row, name };
}

/**
 * Deletes a project, and with it its members, invitations, tokens and secrets, everywhere within a
 * second of the commit. Its records are kept; the caller deletes its apps in the same transaction.
 * Throws `Fault` when it does not exist.
 */
export async function deleteProject(
  tx: Tx,
  deletion: { id: ProjectId; nowMs: number; by: By },
): Promise<void> {
  const { id, by } = deletion;
  const at = new Date(deletion.nowMs);
  const row = await store.lockProjectWhole(tx, id);
  const tokens = await store.revokeProjectTokens(tx, id, at);
  const members = await store.removeMembers(tx, id);
  await store.removeInvitations(tx, id);
  await store.eraseSecrets(tx, id);
  await store.markDeleted(tx, id, at);
  await record(tx, {
    projectId: id,
    action: "project.delete",
    by,
    resource: { type: "project", id, name: row.name },
    changes: {
      memberCount: { old: members.length, new: 0 },
      tokenCount: { old: tokens.length, new: 0 },
    },
  });
  for (const token of tokens) await notify(tx, "tokens", token);
  for (const member of members) await notify(tx, "people", member);
  await notify(tx, "webhook_secrets", id);
}

/** Creates a person; returns the id. Throws `Fault` when the address is taken. */
export async function createPerson(
  tx: Db,
  person: { email: string; name: string; password: Secret },
): Promise<string> {
  const email = person.email.toLowerCase();
  const id = randomUUID();
  const isNew = await insertPerson(tx, { id, email, name: person.name });
  if (!isNew) throw new Fault("conflict", `email ${email} is taken.`);
  await insertPassword(tx, {
    personId: id,
    passwordHash: await hashPassword(person.password.reveal()),
  });
  return id;
}
