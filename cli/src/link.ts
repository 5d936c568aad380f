// `slipway link`: binds a folder to a project and an app, so that commands there need no options.
import { rmSync } from "node:fs";
import { readAppFolder } from "./app-folder.ts";
import { ApiRefused } from "./api-client.ts";
import { command } from "./command.ts";
import { connect, projectOf, projectOptions, projectPath } from "./connection.ts";
import { checkApp, linkFile, readLink, writeLink } from "./link-file.ts";
import { output } from "./output.ts";
import { plain } from "./plain-text.ts";
import { Refused } from "./refused.ts";

/** The command that links this folder to a project and an app. */
export const link = command({
  name: "link",
  about: `Bind this folder to a project and an app: commands without an app use them here. The link is a file in .slipway,
which is neither deployed nor committed. Without an app, the name in slipway.toml counts.`,
  examples: ["link", "link hello --project shop"],
  operands: [{ name: "app", about: "The app's name; it may not exist yet.", isOptional: true }],
  options: { remove: { value: null, about: "Remove the link." }, ...projectOptions },
  async run(given, machine) {
    const folder = readAppFolder(".");
    if (given.has("remove")) {
      const before = readLink(folder.path);
      rmSync(linkFile(folder.path), { force: true });
      machine.tell(
        before === null
          ? "This folder is not linked."
          : `This folder is no longer linked to ${plain(before.app)}.`,
      );
      output(given, machine, { link: null }, () => undefined);
      return;
    }
    const app = given.operand("app") || folder.name;
    if (app === null)
      throw new Refused("Name the app: slipway link <app>. There is no name in slipway.toml.", {
        exitCode: 2,
      });
    checkApp(app);
    const connection = connect(given, machine);
    const project = await projectOf(connection, given, machine);
    const isThere = await connection.client
      .get(projectPath(project, `/apps/${encodeURIComponent(app)}`))
      .then(
        () => true,
        (error: unknown) => {
          if (error instanceof ApiRefused && error.status === 404) return false;
          throw error;
        },
      );
    writeLink(folder.path, { project, app });
    machine.tell(
      `Linked to ${plain(app)} in the project ${project}${isThere ? "" : ", which slipway deploy will make"}.`,
    );
    output(given, machine, { link: { project, app }, isThere }, () => undefined);
  },
});
