// `slipway status`: who commands act as, and how the apps of the project do, on one screen.
import { answerOf } from "@slipway/client/client.ts";
import { failedBuildNote, type BuiltApp } from "@slipway/contract/failed-build.ts";
import { withCommands } from "./command-advice.ts";
import type { Machine } from "./machine.ts";
import { output } from "./output.ts";
import { plain } from "./plain-text.ts";
import { resourceCommand } from "./resource.ts";
import { cellText, moment, printTable, state } from "./table.ts";

/** The command that shows what runs, and what needs attention. */
export const status = resourceCommand({
  name: "status",
  about: `Show which platform and project commands use, the apps with their replicas, and what needs attention: what an app waits
for, and a newest build that failed.`,
  examples: ["status", "status --json"],
  of: "project",
  async run({ given, machine, client, api, path }) {
    const { project_id } = path;
    const [project, apps, replicas] = await Promise.all([
      answerOf(api.GET("/v2/projects/{project_id}", { params: { path: { project_id } } })),
      answerOf(api.GET("/v2/projects/{project_id}/apps", { params: { path: { project_id } } })),
      answerOf(
        api.GET("/v2/projects/{project_id}/containers", { params: { path: { project_id } } }),
      ),
    ]);
    const rows = apps.map((app) => ({
      name: app.name,
      status: app.status,
      replicas: replicas.filter(
        ({ appId, containerState }) => appId === app.id && containerState === "RUNNING",
      ).length,
      changed: app.updatedAt,
      attention: attentionOf(app, machine),
    }));
    output(
      given,
      machine,
      { url: client.url, project: { id: project.id, name: project.name }, apps: rows },
      () => {
        machine.print(plain(`${client.url}, project ${project.name} (${project.id})`));
        machine.print("");
        if (rows.length === 0)
          return machine.tell("The project has no apps yet. To begin one: slipway init");
        printTable(
          machine,
          ["APP", "STATE", "REPLICAS", "CHANGED"],
          rows.map((one) => [one.name, state(one.status), one.replicas, moment(one.changed)]),
        );
        // Below the table, where a narrow terminal cuts nothing of them.
        const needy = rows.filter(({ attention }) => attention !== null);
        if (needy.length > 0) machine.print("\nNeeds attention:");
        for (const { name, attention } of needy)
          machine.print(plain(`  ${name}: ${withCommands(attention ?? "")}`));
      },
    );
  },
});

type App = BuiltApp & {
  readonly name: string;
  readonly waitReason: string | null;
  readonly lastBuildEndedAt: string | null;
  readonly latestBuildId: string | null;
};

/** What it waits for, and why its newest build failed. Null: nothing needs attention. */
function attentionOf(app: App, machine: Machine): string | null {
  const { name, status, waitReason, latestBuildId } = app;
  const when =
    app.lastBuildEndedAt === null ? "" : ` ${cellText(machine, moment(app.lastBuildEndedAt))}`;
  const failed = failedBuildNote(app, when);
  const notes = [waitReason];
  if (failed !== null)
    notes.push(`${failed} To see why: slipway builds show ${name} ${latestBuildId}`);
  else if (status === "FAILED" && waitReason === null)
    notes.push(`No build has succeeded. To see why: slipway builds show ${name}`);
  const said = notes.filter((note) => note !== null);
  return said.length === 0 ? null : said.join(" ");
}
