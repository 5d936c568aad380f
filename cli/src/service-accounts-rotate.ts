// `slipway service-accounts rotate`: gives a service account a new token.
import { fieldsOf, textOf } from "./answer.ts";
import { command } from "./command.ts";
import { connect, projectOf, projectOptions } from "./connection.ts";
import { endOf, secondsOf } from "./life.ts";
import { accountOf, accountsPath, showToken } from "./service-account.ts";
import { jsonOption } from "./table.ts";

/** Rotates one. */
export const rotateServiceAccount = command({
  name: "service-accounts rotate",
  about: `Prints a new token of a service account, which is shown this once. The one before works on for the overlap, so
that what uses it can be given the new one. The new token alone goes to standard output.`,
  operands: [{ name: "account", about: "The service account's name or id." }],
  options: {
    overlap: {
      value: "<time>",
      about: "How long the token before works on: 30m, 24h, 7d; 24h when left out, 0: not at all.",
    },
    expires: { value: "<when>", about: "When the new token ends; as long from now as the one before when left out." },
    ...projectOptions,
    ...jsonOption,
  },
  async run(given, machine) {
    const [overlap, expires] = [given.text("overlap"), given.text("expires")];
    const body = {
      ...(overlap === undefined ? {} : { overlap_seconds: secondsOf(overlap, "--overlap") }),
      ...(expires === undefined ? {} : { expires_at: endOf(expires, { option: "--expires", nowMs: Date.now() }) }),
    };
    const connection = connect(given, machine);
    const project = await projectOf(connection, given, machine);
    const account = await accountOf(connection, project, given.operand("account"));
    const path = accountsPath(project, `/${encodeURIComponent(textOf(account, "id"))}/rotate`);
    const issued = fieldsOf(await connection.client.ask({ method: "POST", path, body }));
    const beside = overlap === "0" ? "the one before has ended" : `the one before works on for ${overlap ?? "24h"}`;
    const said = `Made a new token of ${textOf(account, "name")}; ${beside}.`;
    showToken(machine, issued, { isJson: given.has("json"), said });
  },
});
