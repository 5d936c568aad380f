// Names of apps, from their ids.

/** The name of an app is what follows the project in its id. */
export function appName(app: string, project: string): string {
  return app.startsWith(`${project}-`) ? app.slice(project.length + 1) : app;
}
