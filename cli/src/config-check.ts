// `slipway config validate`: reads the TOML file of an app as the platform does, and says what is
// wrong in it. It needs no platform.
import { checkToml } from "@slipway/server/src/apps/toml-check.ts";
import { readAppFolder, tableOf } from "./app-folder.ts";
import { command } from "./command.ts";
import { output } from "./output.ts";
import { plain } from "./plain-text.ts";
import { exitCodes, Refused } from "./refused.ts";

/** The commands of the TOML file, by verb. */
export const config = {
  validate: command({
    name: "config validate",
    about: `Check slipway.toml or cerebrium.toml as a deployment would: values, names that mean nothing, and settings that exclude
each other. Exits with 1 if a deployment would be refused, and with 2 if the file is not TOML.`,
    examples: ["config validate", "config validate shop"],
    operands: [{ name: "folder", about: "The app's folder. Default: this one.", isOptional: true }],
    run(given, machine) {
      const folder = readAppFolder(given.operand("folder"));
      if (folder.toml === null) {
        throw new Refused(`${folder.path} has no slipway.toml. To make one: slipway init`, {
          exitCode: exitCodes.notFound,
        });
      }
      const { file, text } = folder.toml;
      const provider = tableOf(folder.settings["hardware"])["provider"];
      // Which providers there are is the platform's to say.
      const providers = typeof provider === "string" ? [provider] : [];
      const { settings, warnings, problem } = checkToml({ name: file, text }, providers);
      const problems = [...settings.map((one) => one.problem), problem].filter(
        (one) => one !== null,
      );
      const isValid = problems.length === 0;
      output(given, machine, { file, isValid, problems, warnings }, () => {
        for (const warning of warnings) machine.tell(plain(warning));
        for (const one of problems) machine.tell(plain(one));
        if (isValid)
          machine.tell(
            `${file} is valid${warnings.length === 0 ? "" : ", but see the warnings above"}.`,
          );
      });
      return Promise.resolve(isValid ? 0 : exitCodes.failed);
    },
  }),
};
