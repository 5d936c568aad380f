// `slipway invite`: invites a person to a project and prints the link.
import { answerOf } from "@slipway/client/client.ts";
import { roles } from "@slipway/contract/words.ts";
import { changeCommand, choice } from "./resource.ts";

/** The command that invites somebody to a project. */
export const invite = changeCommand({
  name: "invite",
  about: `Invite a person to the project. The link is shown only once and works once. If the platform can send mail,
it is also sent to them. Inviting the same address again creates a new link and invalidates the previous one.
Only the link goes to standard output.`,
  examples: ["invite ada@example.org", "invite ada@example.org --role admin"],
  of: "project",
  operands: [{ name: "email", about: "The person's email address." }],
  options: {
    role: { value: "<role>", about: "owner, admin, member or billing. Default: member." },
  },
  async change({ given, api, path }) {
    const body = { email: given.operand("email"), role: choice(given, "role", roles) ?? "member" };
    return await answerOf(
      api.POST("/v2/projects/{project_id}/invitations", { params: { path }, body }),
    );
  },
  said: ({ email, role, expiresAt, isMailed }) => [
    `Invited ${email} as ${role}, until ${expiresAt}.`,
    isMailed
      ? "The link was sent to them by mail. Here it is as well:"
      : "No mail was sent. Give them this link; it is shown only once:",
  ],
  result: ({ link }) => link,
});
