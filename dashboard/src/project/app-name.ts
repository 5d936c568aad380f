// Names of apps, from their ids.

/** The name of an app is what follows the project in its id. "": what is billed to no app. */
export function appName(app: string, project: string): string {
  if (app === "") return "persistent storage";
  return app.startsWith(`${project}-`) ? app.slice(project.length + 1) : app;
}
