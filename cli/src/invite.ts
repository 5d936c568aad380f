// `slipway invite`: invites a person to a project and prints the link.
import { fieldsOf, textOf } from "./answer.ts";
import { command } from "./command.ts";
import { connect, projectOf, projectOptions, projectPath } from "./connection.ts";
import { plain } from "./plain-text.ts";
import { jsonOption } from "./table.ts";

/** Invites. */
export const invite = command({
  name: "invite",
  about: `Invites a person to the project. The link is shown this once and good for one use; where the platform has mail
it is sent to them as well. Inviting the same address again makes a new link and ends the one before.
The link alone goes to standard output.`,
  operands: [{ name: "email", about: "The person's address of mail." }],
  options: {
    role: { value: "<role>", about: "owner, admin, member or billing; member when left out." },
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
        ? "The link was sent to them by mail; it is also this:"
        : "Nothing was sent by mail. Give them this link, which is shown this once:",
    );
    machine.print(plain(textOf(made, "link")));
  },
});
