// Rows of the walk over all routes for projects, members and invitations; see `audit-walk-rows.ts`.
import type { RouteId } from "@slipway/contract/routes.ts";
import type { Role } from "@slipway/contract/words.ts";
import type { Walk, WalkCaller, WalkRow } from "./support/audit-walk.ts";

/** A person who has signed in. */
export type Walked = {
  readonly id: string;
  readonly email: string;
  readonly caller: WalkCaller;
  readonly refreshToken: string;
};

/** The password of every person of the walk. */
export const password = "a walked-secret of a person";
let peopleMade = 0;

async function invite(
  walk: Walk,
  email: string,
  role: Role,
): Promise<{ id: string; secret: string }> {
  const { status, body } = await walk.call("createInvitation", { body: { email, role } });
  if (status !== 201) throw new Error(JSON.stringify(body));
  return { id: body.id, secret: String(body.link).split("/").at(-1) ?? "" };
}

/** A person who came by an invitation and has signed in. */
export async function newMember(walk: Walk, role: Role): Promise<Walked> {
  const email = `walker-${++peopleMade}@example.org`;
  const { secret } = await invite(walk, email, role);
  const body = { token: secret, name: "Walker", password };
  const accepted = await walk.call("acceptInvitation", { body, caller: "nobody" });
  return await signIn(walk, { id: accepted.body.personId, email });
}

/** The person with another session. */
export async function signIn(
  walk: Walk,
  { id, email }: Pick<Walked, "id" | "email">,
): Promise<Walked> {
  const { body } = await walk.call("signIn", { body: { email, password }, caller: "nobody" });
  const token: string = body.accessToken;
  return { id, email, caller: { token, type: "person" }, refreshToken: body.refreshToken };
}

let leaver: Walked | undefined;

/** By operation id. */
export const projectRows: Readonly<Partial<Record<RouteId, WalkRow>>> = {
  createProject: {
    succeed: () => ({ body: { name: "Walked" }, caller: "operator" }),
    resource: ({ body }) => ({ type: "project", id: body.id }),
    projectOf: ({ body }) => body.id,
  },
  updateProject: { succeed: () => ({ body: { name: "Walked on" } }) },
  deleteProject: {
    async succeed(walk) {
      const { body } = await walk.call("createProject", {
        body: { name: "Short" },
        caller: "operator",
      });
      return { parts: { project_id: body.id }, caller: "operator" };
    },
    // The new one is of nobody's tokens.
    refuse: () => ({ caller: "inference", status: 403 }),
  },
  updateMember: {
    async succeed(walk) {
      const { id } = await newMember(walk, "member");
      return { parts: { person_id: id }, body: { role: "admin" } };
    },
  },
  removeMember: {
    succeed: async (walk) => ({ parts: { person_id: (await newMember(walk, "member")).id } }),
  },
  leaveProject: {
    async succeed(walk) {
      leaver = await newMember(walk, "billing");
      return { caller: leaver.caller };
    },
    resource: () => ({ type: "person", id: leaver?.id ?? null }),
  },
  createInvitation: {
    succeed: () => ({ body: { email: "walked@example.org", role: "member" } }),
    resource: ({ body }) => ({ type: "invitation", id: body.id }),
  },
  deleteInvitation: {
    succeed: async (walk) => ({
      parts: { invitation_id: (await invite(walk, "withdrawn@example.org", "member")).id },
    }),
  },
  acceptInvitation: {
    async succeed(walk) {
      const { id, email, caller } = await newMember(walk, "member");
      await walk.call("removeMember", { parts: { person_id: id } });
      const { secret } = await invite(walk, email, "member");
      return { body: { token: secret }, caller };
    },
    resource: ({ body }) => ({ type: "person", id: body.personId }),
    projectOf: (_answer, walk) => walk.projectId,
    async refuse(walk) {
      const { secret } = await invite(walk, "somebody-else@example.org", "member");
      return { body: { token: secret }, caller: "owner", status: 403 };
    },
  },
};
