// `slipway open`: prints the dashboard's page of a project or an app, and opens it in a browser
// where there is one.
import { spawn } from "node:child_process";
import { command } from "./command.ts";
import { connect, projectOptions, projectPath } from "./connection.ts";
import { appOfFolder, projectWith } from "./folder-app.ts";
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
    const named = given.operand("app");
    const here = named === "" ? appOfFolder(".") : { app: named, project: null };
    const app = here.app ?? "";
    const project = await projectWith(here, { connection, given, machine });
    // A typing error would open an empty page. An app of this folder may not be deployed yet.
    if (named !== "")
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
  const hasScreen =
    isMac || (environment["DISPLAY"] || environment["WAYLAND_DISPLAY"] || "") !== "";
  if (!isInteractive || !hasScreen) return;
  const child = spawn(isMac ? "open" : "xdg-open", [url], { stdio: "ignore", detached: true });
  child.on("error", () => undefined);
  child.unref();
}
