// `slipway invite`: invites a person to a project and prints the link.
import { fieldsOf, textOf } from "./answer.ts";
import { command } from "./command.ts";
import { connect, projectOf, projectOptions, projectPath } from "./connection.ts";
import { plain } from "./plain-text.ts";
import { jsonOption } from "./table.ts";

/** Invites. */
export const invite = command({
  name: "invite",
  about: `Invite a person to the project. The link is shown only once and works once. If the platform can send mail,
it is also sent to them. Inviting the same address again creates a new link and invalidates the previous one.
Only the link goes to standard output.`,
  operands: [{ name: "email", about: "The person's email address." }],
  options: {
    role: { value: "<role>", about: "owner, admin, member or billing. Default: member." },
    ...projectOptions,
    ...jsonOption,
  },
  async run(given, machine) {
    const connection = connect(given, machine);
    const project = await projectOf(connection, given, machine);
    const body = { email: given.operand("email"), role: given.text("role") ?? "member" };
    const path = projectPath(project, "/invitations");
    const made = fieldsOf(await connection.client.ask({ method: "POST", path, body }));
    if (given.has("json")) {
      machine.print(JSON.stringify(made));
      return;
    }
    const email = plain(textOf(made, "email"));
    machine.tell(`Invited ${email} as ${textOf(made, "role")}, until ${textOf(made, "expiresAt")}.`);
    machine.tell(
      made["isMailed"] === true
        ? "The link was sent to them by mail. Here it is as well:"
        : "No mail was sent. Give them this link; it is shown only once:",
    );
    machine.print(plain(textOf(made, "link")));
  },
});
