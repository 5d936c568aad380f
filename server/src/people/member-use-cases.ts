// Members of projects: who they are, changing their role, ending memberships. Changes in one
// project are made one after another, so that two at once do not leave it without an owner. Called
// by the API.
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

/** Who acts, and how that is recorded. */
export type Acting = { readonly caller: Caller; readonly by: By };

/** The most members of a project. */
export const membersMax = 1_000;

/** The use cases. They throw `Fault("not_found" | "forbidden" | "conflict")`. */
export class MemberUseCases {
  readonly #db: Db;
  readonly #personChanged: (personId: string) => void;

  /**
   * `personChanged` hears of each change after its commit, for what remembers people in this
   * process; all others are notified.
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

  /** All members, who came first first. */
  async list(projectId: ProjectId): Promise<store.Member[]> {
    return await store.memberRows(this.#db, projectId, membersMax);
  }

  /** Gives a member another role; it holds everywhere within a second. */
  async changeRole(key: store.MemberKey, role: Role, acting: Acting): Promise<store.Member> {
    return await this.#change(key, async (tx, member) => {
      await requireRight(tx, { ...key, ...acting, roles: [member.role, role] });
      if (member.role === role) return member;
      if (member.role === "owner") await requireOtherOwner(tx, key.projectId);
      await store.setRole(tx, key, role);
      await recordOf(tx, { ...key, member, by: acting.by, action: "member.update", role });
      return { ...member, role };
    });
  }

  /** Ends another's membership; it holds everywhere within a second. */
  async remove(key: store.MemberKey, acting: Acting): Promise<void> {
    await this.#change(key, async (tx, member) => {
      await requireRight(tx, { ...key, ...acting, roles: [member.role] });
      return await end(tx, key, { member, by: acting.by });
    });
  }

  /** Ends one's own membership, which takes no permission. */
  async leave(key: store.MemberKey, by: By): Promise<void> {
    await this.#change(key, (tx, member) => end(tx, key, { member, by }));
  }

  async #change(
    key: store.MemberKey,
    change: (tx: Tx, member: store.Member) => Promise<store.Member>,
  ): Promise<store.Member> {
    const changed = await this.#db.transaction().execute(async (tx) => {
      await lockProject(tx, key.projectId);
      const member = await store.memberOf(tx, key);
      if (member === undefined)
        throw new Fault("not_found", "The project has no member with that id.");
      const made = await change(tx, member);
      await notify(tx, "people", key.personId);
      return made;
    });
    this.#personChanged(key.personId);
    return changed;
  }
}

/**
 * Throws `Fault("forbidden")` when one of the roles allows what the caller may not. The project is
 * locked: the caller's own rights are read again, since it may have been changed a moment ago.
 */
export async function requireRight(
  tx: Tx,
  given: {
    readonly caller: Caller;
    readonly projectId: ProjectId;
    readonly roles: readonly Role[];
  },
): Promise<void> {
  const { projectId, roles } = given;
  const caller = await currentCaller(tx, given.caller, projectId);
  const tooMuch = roles.find((role) => !mayGive(caller, role, projectId));
  if (tooMuch === undefined && allows(caller, "members.write", projectId)) return;
  const text =
    tooMuch === undefined
      ? "You no longer have the permission members.write."
      : `The role ${tooMuch} has permissions that you lack: only people with all of them can grant or revoke it.`;
  throw new Fault("forbidden", text);
}

async function requireOtherOwner(tx: Tx, projectId: ProjectId): Promise<void> {
  if ((await store.countMembers(tx, projectId)).owners > 1) return;
  throw new Fault(
    "conflict",
    "This is the project's last owner; make another member an owner first.",
  );
}

async function end(
  tx: Tx,
  key: store.MemberKey,
  { member, by }: { member: store.Member; by: By },
): Promise<store.Member> {
  if (member.role === "owner") await requireOtherOwner(tx, key.projectId);
  await store.deleteMember(tx, key);
  await recordOf(tx, { ...key, member, by, action: "member.remove" });
  return member;
}

type Recorded = store.MemberKey & {
  readonly action: "member.update" | "member.remove";
  readonly member: store.Member;
  /** The new one; undefined: none any more. */
  readonly role?: Role;
  readonly by: By;
};

async function recordOf(
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
