// `slipway service-accounts rotate`: issues a new token for a service account.
import { fieldsOf, textOf } from "./answer.ts";
import { command } from "./command.ts";
import { connect, projectOf, projectOptions } from "./connection.ts";
import { endOf, secondsOf } from "./life.ts";
import { accountOf, accountsPath, showToken } from "./service-account.ts";
import { jsonOption } from "./table.ts";

/** Rotates the token of a service account. */
export const rotateServiceAccount = command({
  name: "service-accounts rotate",
  about: `Print a new token for a service account; it is shown only once. The previous token stays valid for the overlap, so
that you can deploy the new one. Only the new token goes to standard output.`,
  operands: [{ name: "account", about: "The service account's name or id." }],
  options: {
    overlap: {
      value: "<time>",
      about: "How long the previous token stays valid: 30m, 24h, 7d, or 0 to revoke it now. Default: 24h.",
    },
    expires: {
      value: "<when>",
      about: "When the new token expires. Default: the same lifetime as the previous token.",
    },
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
    const beside =
      overlap === "0" ? "the previous one is revoked" : `the previous one stays valid for ${overlap ?? "24h"}`;
    const said = `Created a new token for ${textOf(account, "name")}; ${beside}.`;
    showToken(machine, issued, { isJson: given.has("json"), said });
  },
});
