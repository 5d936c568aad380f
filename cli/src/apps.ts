// `slipway apps list` and `slipway apps show`: the apps of a project, and one with its settings.
import { answerOf } from "@slipway/client/client.ts";
import { listCommand, showCommand } from "./resource.ts";
import { moment, printTable, state } from "./table.ts";

/** The commands that show apps, by verb. */
export const apps = {
  list: listCommand({
    name: "apps list",
    about:
      "List the apps of the project, with their states, the time of their last change, and what an app waits for.",
    examples: ["apps", "apps --json"],
    of: "project",
    items: ({ api, path }) =>
      answerOf(api.GET("/v2/projects/{project_id}/apps", { params: { path } })),
    columns: {
      NAME: ({ name }) => name,
      STATE: ({ status }) => state(status),
      CHANGED: ({ updatedAt }) => moment(updatedAt),
      "WAITS FOR": ({ waitReason }) => waitReason ?? "",
    },
    none: "The project has no apps yet.",
  }),

  show: showCommand({
    name: "apps show",
    about:
      "Show an app: its state, its address, and every setting in effect with where it comes from.",
    examples: ["apps show hello", "apps show hello --json"],
    of: "app",
    item: ({ api, path }) =>
      answerOf(api.GET("/v2/projects/{project_id}/apps/{app_id}", { params: { path } })),
    fields: (app) => ({
      Name: app.name,
      Id: app.id,
      State: state(app.status),
      "Waits for": app.waitReason,
      Address: app.internalEndpoint,
      Page: app.pageUrl,
      Repository: app.gitRepo,
      Created: moment(app.createdAt),
      Changed: moment(app.updatedAt),
      "Live release": app.liveRelease === null ? null : `v${app.liveRelease}`,
      "Latest build": state(app.lastBuildStatus),
      "Build says": app.lastBuildReason,
      "Deploys paused": app.autoDeployPausedReason,
    }),
    more({ settings }, machine) {
      const rows = Object.entries(settings).map(([name, { value, origin, pending }]) => [
        name,
        settingText(value),
        origin,
        pending === undefined ? "" : settingText(pending),
      ]);
      machine.print("");
      printTable(machine, ["SETTING", "VALUE", "FROM", "PENDING"], rows);
    },
  }),
};

function settingText(value: unknown): string {
  if (value === null || value === undefined) return "-";
  return typeof value === "string" ? value : JSON.stringify(value);
}
