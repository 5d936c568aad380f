// Invitations to projects: members who may invite create them, and whoever has the link accepts
// them. Only a hash of the link's secret is stored. Called by the API; a change and its audit row
// are one transaction.
import { createHash, randomBytes, randomUUID } from "node:crypto";
import type { z } from "zod";
import type { acceptedInvitation, openInvitation } from "@slipway/contract/project-answers.ts";
import type { Sent } from "@slipway/contract/route.ts";
import type { Role } from "@slipway/contract/words.ts";
import { insertPassword, insertPerson } from "#accounts/account-store.ts";
import { actorOf, type Caller } from "#accounts/caller.ts";
import { hashPassword } from "#accounts/passwords.ts";
import { insertMember, lockProject, tryLockProject } from "#accounts/project-store.ts";
import { record, type By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import type { Gate } from "#lib/gate.ts";
import type { ProjectId } from "#lib/ids.ts";
import { Secret } from "#lib/secret.ts";
import type { Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import * as store from "./invitation-store.ts";
import { membersMax, requireRight, type Acting } from "./member-use-cases.ts";
import { countMembers, memberByEmail, memberOf } from "./member-store.ts";
import { checkNewPassword } from "./password-rules.ts";
import type { PeopleParts } from "./people-parts.ts";

/** An invitation as members of its project see it. */
export type Invitation = ReturnType<typeof invitationFrom>;

/** A new invitation, with the secret of its link. */
export type CreatedInvitation = {
  readonly invitation: Invitation;
  readonly projectName: string;
  readonly secret: Secret;
};

/** An invitation as it is shown to everybody who has its link. */
type OpenInvitation = Sent<z.infer<typeof openInvitation>>;

/** The answer to somebody who has accepted an invitation. */
type Accepted = z.infer<typeof acceptedInvitation>;

/** The request of somebody who accepts an invitation. */
export type Acceptance = {
  readonly secret: Secret;
  /** The name of a new account; null: the person has an account. */
  readonly name: string | null;
  /** The password of a new account; null: the person has an account. */
  readonly password: Secret | null;
  /** The caller by the token that was sent along; null: none was sent. */
  readonly caller: Caller | null;
  readonly by: By;
};

const daysValid = 7;
const dayMs = 86_400_000;
/** Nobody guesses a secret of 32 bytes, so a fast hash of it is enough. */
const secretBytes = 32;
/** The maximum number of invitations of one project that wait to be accepted. */
const waitingMax = 1_000;

export type InvitationParts = Pick<PeopleParts, "db" | "clock" | "hashes"> & {
  /** Called with each new member after the commit, as in `MemberUseCases`. */
  readonly personChanged: (personId: string) => void;
};

/**
 * The use cases of invitations. They throw `Fault("not_found" | "unauthorized" | "forbidden" |
 * "invalid" | "conflict")`.
 */
export class InvitationUseCases {
  readonly #parts: InvitationParts;

  constructor(parts: InvitationParts) {
    this.#parts = parts;
  }

  /** Lists the invitations that can still be accepted, newest first. */
  async list(projectId: ProjectId): Promise<Invitation[]> {
    const rows = await store.listInvitations(this.#parts.db, {
      projectId,
      now: this.#now(),
      limit: waitingMax,
    });
    return rows.map(invitationFrom);
  }

  /**
   * Invites a person, and ends an earlier invitation of the same address to the same project. The
   * `secret` is returned here only, since just its hash is stored.
   */
  async create(
    wish: { readonly projectId: ProjectId; readonly email: string; readonly role: Role },
    acting: Acting,
  ): Promise<CreatedInvitation> {
    const { projectId, role } = wish;
    const email = wish.email.toLowerCase();
    const secret = new Secret(randomBytes(secretBytes).toString("base64url"));
    const created_at = this.#now();
    const row: store.InvitationRow = {
      id: randomUUID(),
      project_id: projectId,
      email,
      role,
      created_at,
      secret_hash: hashOf(secret),
      invited_by: acting.by.actor.name,
      expires_at: new Date(created_at.getTime() + daysValid * dayMs),
    };
    const projectName = await this.#parts.db.transaction().execute(async (tx) => {
      const project = await lockProject(tx, projectId);
      const earlier = await store.invitationByEmail(tx, projectId, email);
      // To end the earlier invitation, the caller needs the permissions of its role too.
      const roles = earlier === undefined ? [role] : [earlier.role, role];
      await requireRight(tx, { projectId, caller: acting.caller, roles });
      await requireInvitable(tx, { projectId, email, now: created_at });
      await store.putInvitation(tx, row);
      await record(tx, {
        projectId,
        action: "invitation.create",
        by: acting.by,
        resource: { type: "invitation", id: row.id, name: email },
        changes: { role: { old: earlier?.role, new: role }, expiresAt: { new: row.expires_at } },
      });
      return project.name;
    });
    return { invitation: invitationFrom(row), projectName, secret };
  }

  /** Withdraws an invitation. Its link stops working at once. */
  async delete(projectId: ProjectId, id: string, { caller, by }: Acting): Promise<void> {
    await this.#parts.db.transaction().execute(async (tx) => {
      await lockProject(tx, projectId);
      const row = await store.invitationById(tx, projectId, id);
      if (row === undefined)
        throw new Fault("not_found", "The project has no invitation with that id.");
      await requireRight(tx, { projectId, caller, roles: [row.role] });
      await store.deleteInvitation(tx, row);
      const resource = { type: "invitation", id, name: row.email };
      await record(tx, {
        projectId,
        action: "invitation.delete",
        by,
        resource,
        changes: { role: { old: row.role } },
      });
    });
  }

  /** The invitation that belongs to a link's secret. */
  async show(secret: Secret): Promise<OpenInvitation> {
    const row = await this.#open(secret);
    const { email, role, invited_by: invitedBy, expires_at: expiresAt } = row;
    const project = { projectId: row.project_id, projectName: row.project_name };
    return { ...project, email, role, invitedBy, expiresAt, hasAccount: row.person_id !== null };
  }

  /** Makes the invited person a member of the project, once. */
  async accept(acceptance: Acceptance): Promise<Accepted> {
    const row = await this.#open(acceptance.secret);
    await this.#refuseOthers(row, acceptance);
    const person = await acceptingPerson(row, acceptance, this.#parts.hashes);
    const { project_id: projectId, email, role } = row;
    await this.#parts.db.transaction().execute(async (tx) => {
      // The project may have been deleted meanwhile, or the invitation used or withdrawn.
      if ((await tryLockProject(tx, projectId)) === undefined) throw noInvitation();
      if (!(await store.deleteInvitation(tx, row))) throw noInvitation();
      if (person.passwordHash !== null)
        await addAccount(tx, { ...person, email, passwordHash: person.passwordHash });
      await join(tx, { projectId, personId: person.id, role });
      const actor = { type: "person", id: person.id, name: person.name } as const;
      await record(tx, {
        projectId,
        action: "invitation.accept",
        by: { ...acceptance.by, actor },
        resource: { type: "person", id: person.id, name: email },
        changes: { role: { new: role } },
      });
      await notify(tx, "people", person.id);
    });
    this.#parts.personChanged(person.id);
    return { projectId, projectName: row.project_name, personId: person.id, email, role };
  }

  /**
   * Refuses a caller whose token does not belong to the invited person, and records this for the
   * project's owners. A request without a token passes.
   */
  async #refuseOthers(row: store.OpenInvitationRow, { caller, by }: Acceptance): Promise<void> {
    if (caller === null) return;
    const isInvited = caller.kind === "person" && caller.personId === row.person_id;
    if (isInvited) return;
    const reason = `The invitation is for ${row.email}, but the token belongs to someone else; send that person's token, or none to create an account.`;
    await record(this.#parts.db, {
      projectId: row.project_id,
      action: "invitation.accept",
      outcome: "failure",
      reason,
      by: { ...by, actor: actorOf(caller) },
      resource: { type: "invitation", id: row.id, name: row.email },
    });
    throw new Fault("forbidden", reason);
  }

  async #open(secret: Secret): Promise<store.OpenInvitationRow> {
    const row = await store.invitationByHash(this.#parts.db, hashOf(secret));
    if (row === undefined || row.expires_at <= this.#now()) throw noInvitation();
    return row;
  }

  #now(): Date {
    return new Date(this.#parts.clock.now());
  }
}

/** The person who accepts an invitation. */
type AcceptingPerson = {
  readonly id: string;
  readonly name: string;
  /** The password's hash for a new account; null: the person has an account. */
  readonly passwordHash: string | null;
};

/**
 * Returns the person who accepts: without a token, somebody who gets a new account. A caller with a
 * token is the invited person, since `#refuseOthers` has refused all others.
 */
async function acceptingPerson(
  row: store.OpenInvitationRow,
  { caller, name, password }: Acceptance,
  hashes: Gate,
): Promise<AcceptingPerson> {
  if (caller?.kind === "person")
    return { id: caller.personId, name: caller.name, passwordHash: null };
  if (row.person_id !== null) {
    const text = `${row.email} has an account: sign in with it and send the token along to accept the invitation.`;
    throw new Fault("unauthorized", text);
  }
  if (name === null)
    throw new Fault("invalid", "name is missing; it is required to create an account.");
  if (password === null)
    throw new Fault("invalid", "password is missing; it is required to create an account.");
  checkNewPassword("password", password, row.email);
  const passwordHash = await hashes.run(() => hashPassword(password.reveal()));
  return { id: randomUUID(), name: name.trim(), passwordHash };
}

async function addAccount(
  tx: Tx,
  { id, name, email, passwordHash }: AcceptingPerson & { email: string; passwordHash: string },
): Promise<void> {
  if (!(await insertPerson(tx, { id, email, name }))) {
    throw new Fault(
      "conflict",
      `An account for ${email} was created a moment ago; sign in with it to accept.`,
    );
  }
  await insertPassword(tx, { personId: id, passwordHash });
}

async function join(
  tx: Tx,
  member: { projectId: ProjectId; personId: string; role: Role },
): Promise<void> {
  const { projectId, personId, role } = member;
  if ((await memberOf(tx, member)) !== undefined)
    throw new Fault("conflict", "You are already a member of this project.");
  if ((await countMembers(tx, projectId)).all >= membersMax) {
    throw new Fault("conflict", `The project has ${membersMax} members, which is the limit.`);
  }
  await insertMember(tx, { project_id: projectId, person_id: personId, role });
}

/** Throws `Fault("conflict")` unless the address can get an invitation to the project. */
async function requireInvitable(
  tx: Tx,
  invitation: { projectId: ProjectId; email: string; now: Date },
): Promise<void> {
  const { projectId, email } = invitation;
  if ((await memberByEmail(tx, projectId, email)) !== undefined) {
    throw new Fault("conflict", `${email} is already a member of this project.`);
  }
  if ((await store.countOthersAfterPurge(tx, invitation)) >= waitingMax) {
    const text = `${waitingMax} invitations to this project are waiting to be accepted, which is the limit; withdraw some.`;
    throw new Fault("conflict", text);
  }
}

function noInvitation(): Fault {
  return new Fault(
    "not_found",
    "There is no such invitation: it was used or withdrawn, or has expired.",
  );
}

function hashOf(secret: Secret): Buffer {
  return createHash("sha256").update(secret.reveal()).digest();
}

function invitationFrom(row: store.InvitationRow) {
  const {
    id,
    email,
    role,
    invited_by: invitedBy,
    created_at: createdAt,
    expires_at: expiresAt,
  } = row;
  return { id, email, role, invitedBy, createdAt, expiresAt };
}
