// `slipway status`: who commands act as, and how the apps of the project do, on one screen.
import { answerOf } from "@slipway/client/client.ts";
import { output } from "./output.ts";
import { plain } from "./plain-text.ts";
import { resourceCommand } from "./resource.ts";
import { moment, printTable, state } from "./table.ts";

/** Shows it. */
export const status = resourceCommand({
  name: "status",
  about: `Show which platform and project commands use, the apps with their replicas, and what needs attention: what an app waits
for, and a latest build that failed.`,
  examples: ["status", "status --json"],
  of: "project",
  async run({ given, machine, client, api, path }) {
    const { project_id } = path;
    const [project, apps, replicas] = await Promise.all([
      answerOf(api.GET("/v2/projects/{project_id}", { params: { path: { project_id } } })),
      answerOf(api.GET("/v2/projects/{project_id}/apps", { params: { path: { project_id } } })),
      answerOf(api.GET("/v2/projects/{project_id}/containers", { params: { path: { project_id } } })),
    ]);
    const rows = apps.map((app) => ({
      name: app.name,
      status: app.status,
      replicas: replicas.filter(({ appId, containerState }) => appId === app.id && containerState === "RUNNING").length,
      changed: app.updatedAt,
      attention: app.waitReason ?? (app.status === "FAILED" ? failed(app.name) : null),
    }));
    output(given, machine, { url: client.url, project: { id: project.id, name: project.name }, apps: rows }, () => {
      machine.print(plain(`${client.url}, project ${project.name} (${project.id})`));
      machine.print("");
      if (rows.length === 0) return machine.tell("The project has no apps yet. To begin one: slipway init");
      printTable(
        machine,
        ["APP", "STATE", "REPLICAS", "CHANGED", "NEEDS ATTENTION"],
        rows.map((one) => [one.name, state(one.status), one.replicas, moment(one.changed), one.attention ?? ""]),
      );
    });
  },
});

function failed(name: string): string {
  return `No build has succeeded. To see why: slipway builds show ${name}`;
}
