// Routes that stop, start, restart and delete apps.
import { messageAnswer } from "./answers.ts";
import { paths, type Route } from "./route.ts";

/** By operation id; part of the table in `routes.ts`. */
export const lifecycleRoutes = {
  stopApp: {
    method: "POST",
    path: `${paths.app}/stop`,
    about:
      "Stops an app until it is started, also over restarts of the platform. New calls are refused with 503, running ones may end within the app's grace period, and async runs wait. Deploys build and take effect, but start nothing. 409 when it is already stopped.",
    access: "apps.update",
    audit: "app.stop",
    status: 200,
    answer: messageAnswer,
  },
  startApp: {
    method: "POST",
    path: `${paths.app}/start`,
    about:
      "Starts a stopped app: it takes calls again, and its waiting runs go on. 409 when it is not stopped.",
    access: "apps.update",
    audit: "app.start",
    status: 200,
    answer: messageAnswer,
  },
  restartApp: {
    method: "POST",
    path: `${paths.app}/restart`,
    about:
      "Replaces all replicas of an app step by step with new ones of the same release, while others serve; no call fails. 409 when the app is stopped or has no release.",
    access: "apps.update",
    audit: "app.restart",
    status: 200,
    answer: messageAnswer,
  },
  deleteApp: {
    method: "DELETE",
    path: paths.app,
    about:
      "Deletes an app. Its name is free and its calls are refused at once; running calls and attempts of runs may end within the app's grace period, waiting runs are cancelled. Then its replicas, artifacts, logs, runs, results, secrets, deliveries and storage of its own (storagePath) are removed; its audit log and usage are kept.",
    access: "apps.delete",
    audit: "app.delete",
    status: 200,
    answer: messageAnswer,
  },
} as const satisfies Record<string, Route>;
