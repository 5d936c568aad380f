// `slipway open`: prints the dashboard's page of a project or an app, and opens it in a browser where there is one.
import { spawn } from "node:child_process";
import { readAppFolder } from "./app-folder.ts";
import { command } from "./command.ts";
import { connect, projectOf, projectOptions, projectPath } from "./connection.ts";
import { readLink } from "./link-file.ts";
import type { Machine } from "./machine.ts";
import { output } from "./output.ts";

/** Opens the dashboard. */
export const open = command({
  name: "open",
  about: `Print the address of the dashboard's page of an app, and open it in a browser if this is a terminal on a machine with one.
Without an app: that of the app in this folder, else the project's.`,
  examples: ["open", "open hello"],
  operands: [{ name: "app", about: "Name or id of the app.", isOptional: true }],
  options: { ...projectOptions },
  async run(given, machine) {
    const connection = connect(given, machine);
    const here = given.operand("app") === "" ? readAppFolder(".") : null;
    const link = here === null ? null : readLink(here.path);
    const app = given.operand("app") || (link?.app ?? here?.name ?? "");
    const isChosen = given.has("project") || (machine.environment["SLIPWAY_PROJECT"] ?? "") !== "";
    const project = link !== null && !isChosen ? link.project : await projectOf(connection, given, machine);
    // A typing error would open an empty page. An app of this folder may not be deployed yet.
    if (given.operand("app") !== "")
      await connection.client.get(projectPath(project, `/apps/${encodeURIComponent(app)}`));
    const url = `${connection.client.url}${pagePath(project, app)}`;
    output(given, machine, { url }, () => machine.print(url));
    show(url, machine);
  },
});

function pagePath(project: string, app: string): string {
  const id = app === "" || app.startsWith(`${project}-`) ? app : `${project}-${app}`;
  const rest = id === "" ? "" : `/apps/${encodeURIComponent(id)}`;
  return `/dashboard/projects/${encodeURIComponent(project)}${rest}`;
}

/** Where nothing opens pages, the printed address has to do. */
function show(url: string, { isInteractive, environment }: Machine): void {
  const isMac = process.platform === "darwin";
  const hasScreen = isMac || (environment["DISPLAY"] || environment["WAYLAND_DISPLAY"] || "") !== "";
  if (!isInteractive || !hasScreen) return;
  const child = spawn(isMac ? "open" : "xdg-open", [url], { stdio: "ignore", detached: true });
  child.on("error", () => undefined);
  child.unref();
}
