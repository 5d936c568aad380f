// `slipway members …`: lists and changes memberships, by the member's email address.
import { answerOf } from "@slipway/client/client.ts";
import { roles } from "@slipway/contract/words.ts";
import { closestName } from "@slipway/server/src/lib/closest-name.ts";
import { ApiRefused } from "./api-client.ts";
import { plain } from "./plain-text.ts";
import { exitCodes, misuse, Refused } from "./refused.ts";
import { changeCommand, listCommand, type At } from "./resource.ts";
import { moment } from "./table.ts";

const emailOperand = { name: "email", about: "The person's email address." } as const;

/** The commands of members, by verb. */
export const members = {
  list: listCommand({
    name: "members list",
    about:
      "List the members of the project, followed by invitations that have not been accepted yet.",
    examples: ["members", "members --json"],
    of: "project",
    items: async (at) => [
      ...(await membersOf(at)).map((one) => ({ ...one, state: "member" })),
      ...(await invitationsOf(at)).map((one) => ({ ...one, state: "invited", name: "" })),
    ],
    columns: {
      EMAIL: ({ email }) => email,
      NAME: ({ name }) => name,
      ROLE: ({ role }) => role,
      STATE: (one) => one.state,
      "INVITED UNTIL": (one) => ("expiresAt" in one ? moment(one.expiresAt) : ""),
    },
    none: "The project has no members.",
  }),

  role: changeCommand({
    name: "members role",
    about:
      "Change the role of a member. You cannot grant more permissions than you have, and the last owner keeps that role.",
    examples: ["members role ada@example.org admin"],
    of: "project",
    operands: [emailOperand, { name: "role", about: "owner, admin, member or billing." }],
    async change(at) {
      const role = roles.find((one) => one === at.given.operand("role"));
      if (role === undefined)
        throw misuse(
          `The role is "${at.given.operand("role")}", but must be one of ${roles.join(", ")}.`,
        );
      const member = await memberOf(at);
      const path = { ...at.path, person_id: member.personId };
      const asked = at.api.PATCH("/v2/projects/{project_id}/members/{person_id}", {
        params: { path },
        body: { role },
      });
      return await answerOf(asked);
    },
    said: ({ email, role }) => `${email} now has the role ${role}.`,
  }),

  remove: changeCommand({
    name: "members remove",
    about: `Remove a member immediately, or withdraw an invitation that has not been accepted yet.
The last owner cannot be removed.`,
    examples: ["members remove ada@example.org", "members remove ada@example.org --yes"],
    of: "project",
    operands: [emailOperand],
    question: ({ given }) => `Remove ${given.operand("email")} from the project?`,
    async change(at) {
      const named = at.given.operand("email");
      const member = (await membersOf(at)).find(({ email }) => isSame(email, named));
      if (member !== undefined) {
        const path = { ...at.path, person_id: member.personId };
        await answerOf(
          at.api.DELETE("/v2/projects/{project_id}/members/{person_id}", { params: { path } }),
        );
        return { email: member.email, withdrawn: false };
      }
      const invitation = (await invitationsOf(at)).find(({ email }) => isSame(email, named));
      if (invitation === undefined) throw await noMember(at);
      const path = { ...at.path, invitation_id: invitation.id };
      await answerOf(
        at.api.DELETE("/v2/projects/{project_id}/invitations/{invitation_id}", {
          params: { path },
        }),
      );
      return { email: invitation.email, withdrawn: true };
    },
    said: ({ email, withdrawn }) =>
      withdrawn ? `The invitation of ${email} was withdrawn.` : `${email} is no longer a member.`,
  }),
};

async function membersOf({ api, path }: At) {
  return await answerOf(api.GET("/v2/projects/{project_id}/members", { params: { path } }));
}

async function memberOf(at: At) {
  const member = (await membersOf(at)).find(({ email }) =>
    isSame(email, at.given.operand("email")),
  );
  if (member === undefined) throw await noMember(at);
  return member;
}

function isSame(email: string, named: string): boolean {
  return email.toLowerCase() === named.toLowerCase();
}

async function noMember(at: At): Promise<Refused> {
  const email = at.given.operand("email");
  const all = await membersOf(at);
  const meant = closestName(
    email,
    all.map((one) => one.email),
  );
  const hint = meant === undefined ? "" : ` Did you mean ${plain(meant)}?`;
  return new Refused(
    `The project has no member "${plain(email)}".${hint} To list the members: slipway members`,
    {
      exitCode: exitCodes.notFound,
    },
  );
}

/** Only callers who may invite can see invitations; for others there are none. */
async function invitationsOf({ api, path }: At) {
  try {
    return await answerOf(api.GET("/v2/projects/{project_id}/invitations", { params: { path } }));
  } catch (error) {
    if (error instanceof ApiRefused && error.status === 403) return [];
    throw error;
  }
}
