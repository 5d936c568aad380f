// `slipway apps`: lists the apps of a project.
import { listOf, textOf, textOrNull } from "./answer.ts";
import { command } from "./command.ts";
import { connect, projectOf, projectOptions, projectPath } from "./connection.ts";
import { jsonOption, printTable } from "./table.ts";

/** Lists the apps with their states. */
export const listApps = command({
  name: "apps",
  about: "List the apps of the project, with their states, the time of their last change, and what an app waits for.",
  options: { ...projectOptions, ...jsonOption },
  async run(given, machine) {
    const connection = connect(given, machine);
    const project = await projectOf(connection, given, machine);
    const apps = await connection.client.get(projectPath(project, "/apps"));
    if (given.has("json")) {
      machine.print(JSON.stringify(apps));
      return;
    }
    const rows = listOf(apps).map((one) => [
      ...[textOf(one, "name"), textOf(one, "status"), textOf(one, "updatedAt")],
      textOrNull(one, "waitReason") ?? "",
    ]);
    if (rows.length === 0) machine.tell("The project has no apps yet.");
    else printTable(machine, ["NAME", "STATE", "CHANGED", "WAITS FOR"], rows);
  },
});
