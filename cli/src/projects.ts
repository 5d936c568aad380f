// `slipway projects`: lists the caller's projects and marks the selected one.
import { command } from "./command.ts";
import { connect, platformOptions, projectsOf } from "./connection.ts";
import { jsonOption, printTable } from "./table.ts";

/** Lists the projects. */
export const listProjects = command({
  name: "projects list",
  about: "List the projects that you are a member of. A star marks the project that commands use by default.",
  options: { ...platformOptions, ...jsonOption },
  async run(given, machine) {
    const connection = connect(given, machine);
    const projects = await projectsOf(connection);
    if (given.has("json")) {
      machine.print(JSON.stringify(projects));
      return;
    }
    if (projects.length === 0)
      machine.tell("You are not a member of any project yet. Ask a project owner to invite you.");
    const mark = (id: string): string => (id === connection.signIn?.project ? "*" : "");
    printTable(
      machine,
      ["", "PROJECT", "NAME"],
      projects.map(({ id, name }) => [mark(id), id, name]),
    );
  },
});
