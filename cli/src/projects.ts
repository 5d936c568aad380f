// `slipway projects`: the projects that the caller belongs to, and which one commands are about.
import { command } from "./command.ts";
import { connect, platformOptions, projectsOf } from "./connection.ts";
import { jsonOption, printTable } from "./table.ts";

/** Lists the projects. */
export const listProjects = command({
  name: "projects list",
  about: "Shows the projects that you belong to. A star marks the one that commands are about when none is named.",
  options: { ...platformOptions, ...jsonOption },
  async run(given, machine) {
    const connection = connect(given, machine);
    const projects = await projectsOf(connection);
    if (given.has("json")) {
      machine.print(JSON.stringify(projects));
      return;
    }
    if (projects.length === 0) machine.tell("You belong to no project yet: its owner can invite you.");
    const mark = (id: string): string => (id === connection.signIn?.project ? "*" : "");
    printTable(
      machine,
      ["", "PROJECT", "NAME"],
      projects.map(({ id, name }) => [mark(id), id, name]),
    );
  },
});
