// Use cases for members of projects: list them, change a role, end a membership. A lock on the
// project lets only one change happen at a time, so that two changes together cannot leave the
// project without an owner. Called by the API.
import type { Role } from "@slipway/contract/words.ts";
import type { Caller } from "#accounts/caller.ts";
import { currentCaller } from "#accounts/current-caller.ts";
import { allows, mayGive } from "#accounts/permissions.ts";
import { lockProject } from "#accounts/project-store.ts";
import { record, type By } from "#audit/record.ts";
import { Fault } from "#lib/fault.ts";
import type { ProjectId } from "#lib/ids.ts";
import type { Db, Tx } from "#store/database.ts";
import { notify } from "#store/notify.ts";
import * as store from "./member-store.ts";

/** Who makes a change, and how the audit log names them. */
export type Acting = { readonly caller: Caller; readonly by: By };

/** The maximum number of members of a project. */
export const membersMax = 1_000;

/** The use cases. They throw `Fault("not_found" | "forbidden" | "conflict")`. */
export class MemberUseCases {
  readonly #db: Db;
  readonly #personChanged: (personId: string) => void;

  /**
   * `personChanged` is called after each change is committed, so that caches in this process forget
   * the person at once; other processes get a notification.
   */
  constructor({
    db,
    personChanged,
  }: {
    readonly db: Db;
    readonly personChanged: (personId: string) => void;
  }) {
    this.#db = db;
    this.#personChanged = personChanged;
  }

  /** All members, in the order in which they joined. */
  async list(projectId: ProjectId): Promise<store.Member[]> {
    return await store.memberRows(this.#db, projectId, membersMax);
  }

  /** Gives a member another role, which takes effect within a second. */
  async changeRole(key: store.MemberKey, role: Role, acting: Acting): Promise<store.Member> {
    return await this.#change(key, async (tx, member) => {
      await requireRight(tx, { ...key, ...acting, roles: [member.role, role] });
      if (member.role === role) return member;
      if (member.role === "owner") await requireOtherOwner(tx, key.projectId);
      await store.setRole(tx, key, role);
      await recordChange(tx, { ...key, member, by: acting.by, action: "member.update", role });
      return { ...member, role };
    });
  }

  /** Ends the membership of another person, which takes effect within a second. */
  async remove(key: store.MemberKey, acting: Acting): Promise<void> {
    await this.#change(key, async (tx, member) => {
      await requireRight(tx, { ...key, ...acting, roles: [member.role] });
      return await endMembership(tx, key, { member, by: acting.by });
    });
  }

  /** Ends the membership of the caller, who needs no permission for that. */
  async leave(key: store.MemberKey, by: By): Promise<void> {
    await this.#change(key, (tx, member) => endMembership(tx, key, { member, by }));
  }

  /**
   * Runs `change` for a member in one transaction, with the project locked. Afterwards all caches
   * forget the person.
   */
  async #change(
    key: store.MemberKey,
    change: (tx: Tx, member: store.Member) => Promise<store.Member>,
  ): Promise<store.Member> {
    const changedMember = await this.#db.transaction().execute(async (tx) => {
      await lockProject(tx, key.projectId);
      const member = await store.memberOf(tx, key);
      if (member === undefined)
        throw new Fault("not_found", "The project has no member with that id.");
      const changed = await change(tx, member);
      await notify(tx, "people", key.personId);
      return changed;
    });
    this.#personChanged(key.personId);
    return changedMember;
  }
}

/**
 * Throws `Fault("forbidden")` unless the caller may change members, and has all permissions of the
 * roles. Reads the caller's rights again, since they may have changed a moment ago. The caller of
 * this function holds the lock on the project.
 */
export async function requireRight(
  tx: Tx,
  change: {
    readonly caller: Caller;
    readonly projectId: ProjectId;
    readonly roles: readonly Role[];
  },
): Promise<void> {
  const { projectId, roles } = change;
  const caller = await currentCaller(tx, change.caller, projectId);
  const refusedRole = roles.find((role) => !mayGive(caller, role, projectId));
  if (refusedRole !== undefined) {
    const text = `The role ${refusedRole} has permissions that you lack: only people with all of them can grant or revoke it.`;
    throw new Fault("forbidden", text);
  }
  if (!allows(caller, "members.write", projectId))
    throw new Fault("forbidden", "You no longer have the permission members.write.");
}

async function requireOtherOwner(tx: Tx, projectId: ProjectId): Promise<void> {
  if ((await store.countMembers(tx, projectId)).owners > 1) return;
  throw new Fault(
    "conflict",
    "This is the project's last owner; make another member an owner first.",
  );
}

async function endMembership(
  tx: Tx,
  key: store.MemberKey,
  { member, by }: { member: store.Member; by: By },
): Promise<store.Member> {
  if (member.role === "owner") await requireOtherOwner(tx, key.projectId);
  await store.deleteMember(tx, key);
  await recordChange(tx, { ...key, member, by, action: "member.remove" });
  return member;
}

type Recorded = store.MemberKey & {
  readonly action: "member.update" | "member.remove";
  readonly member: store.Member;
  /** The new role; undefined: the membership has ended. */
  readonly role?: Role;
  readonly by: By;
};

async function recordChange(
  tx: Tx,
  { projectId, personId, action, member, role, by }: Recorded,
): Promise<void> {
  await record(tx, {
    projectId,
    action,
    by,
    resource: { type: "person", id: personId, name: member.email },
    changes: { role: role === undefined ? { old: member.role } : { old: member.role, new: role } },
  });
}
