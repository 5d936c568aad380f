// `slipway apps`: lists the apps of a project.
import { answerOf } from "@slipway/client/client.ts";
import { command } from "./command.ts";
import { connect, projectOf, projectOptions } from "./connection.ts";
import { jsonOption, printTable } from "./table.ts";

/** Lists the apps with their states. */
export const listApps = command({
  name: "apps",
  about: "List the apps of the project, with their states, the time of their last change, and what an app waits for.",
  options: { ...projectOptions, ...jsonOption },
  async run(given, machine) {
    const connection = connect(given, machine);
    const project = await projectOf(connection, given, machine);
    const params = { path: { project_id: project } };
    const apps = await answerOf(connection.client.api.GET("/v2/projects/{project_id}/apps", { params }));
    if (given.has("json")) {
      machine.print(JSON.stringify(apps));
      return;
    }
    const rows = apps.map(({ name, status, updatedAt, waitReason }) => [name, status, updatedAt, waitReason ?? ""]);
    if (rows.length === 0) machine.tell("The project has no apps yet.");
    else printTable(machine, ["NAME", "STATE", "CHANGED", "WAITS FOR"], rows);
  },
});
