// What calls and replicas of an app hear that a person has stopped. Pure.
import { Fault } from "#lib/fault.ts";
import type { AppRoute } from "./routes.ts";

/** Why the app takes no calls; null: nobody has stopped it. Asked for each call: allocates only for stopped apps. */
export function stopOfPerson({ isStopped, projectId, appName }: AppRoute): Fault | null {
  if (isStopped !== true) return null;
  const path = `/v2/projects/${projectId}/apps/${projectId}-${appName}/start`;
  return new Fault("app_stopped", `The app is stopped. It takes calls again when somebody starts it: POST ${path}.`);
}
