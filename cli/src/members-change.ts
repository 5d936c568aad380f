// `slipway members role` and `slipway members remove`: change memberships, by the member's email address.
import { listOf, textOf, type Fields } from "./answer.ts";
import { command } from "./command.ts";
import { connect, projectOf, projectOptions, projectPath, type Connection } from "./connection.ts";
import { plain } from "./plain-text.ts";
import { Refused } from "./refused.ts";

const emailOperand = { name: "email", about: "The person's email address." } as const;

/** Changes the role of a member. */
export const changeRole = command({
  name: "members role",
  about:
    "Change the role of a member. You cannot grant more permissions than you have, and the last owner keeps that role.",
  operands: [emailOperand, { name: "role", about: "owner, admin, member or billing." }],
  options: projectOptions,
  async run(given, machine) {
    const connection = connect(given, machine);
    const project = await projectOf(connection, given, machine);
    const member = await memberOf(connection, project, given.operand("email"));
    const role = given.operand("role");
    await connection.client.ask({ method: "PATCH", path: memberPath(project, member), body: { role } });
    machine.tell(`${plain(textOf(member, "email"))} now has the role ${role}.`);
  },
});

/** Ends a membership, or withdraws an invitation. */
export const removeMember = command({
  name: "members remove",
  about: `Remove a member immediately, or withdraw an invitation that has not been accepted yet.
The last owner cannot be removed.`,
  operands: [emailOperand],
  options: projectOptions,
  async run(given, machine) {
    const connection = connect(given, machine);
    const { client } = connection;
    const project = await projectOf(connection, given, machine);
    const email = given.operand("email");
    const member = find(listOf(await client.get(projectPath(project, "/members"))), email);
    if (member !== undefined) {
      await client.ask({ method: "DELETE", path: memberPath(project, member) });
      machine.tell(`${plain(email)} is no longer a member.`);
      return;
    }
    const invitation = find(listOf(await client.get(projectPath(project, "/invitations"))), email);
    if (invitation === undefined) throw noMember(email);
    const path = projectPath(project, `/invitations/${encodeURIComponent(textOf(invitation, "id"))}`);
    await client.ask({ method: "DELETE", path });
    machine.tell(`The invitation of ${plain(email)} was withdrawn.`);
  },
});

async function memberOf({ client }: Connection, project: string, email: string): Promise<Fields> {
  const member = find(listOf(await client.get(projectPath(project, "/members"))), email);
  if (member === undefined) throw noMember(email);
  return member;
}

function find(people: readonly Fields[], email: string): Fields | undefined {
  return people.find((one) => textOf(one, "email").toLowerCase() === email.toLowerCase());
}

function memberPath(project: string, member: Fields): string {
  return projectPath(project, `/members/${encodeURIComponent(textOf(member, "personId"))}`);
}

function noMember(email: string): Refused {
  return new Refused(`The project has no member "${email}". To list the members: slipway members`);
}
