// `slipway apps stop`, `start`, `restart`, `resume-deploys` and `delete`.
import { answerOf } from "@slipway/client/client.ts";
import { changeCommand } from "./resource.ts";

const route = "/v2/projects/{project_id}/apps/{app_id}" as const;
const said = ({ message }: { readonly message: string }): string => message;

/** The commands that start, stop, restart and delete apps, by verb. */
export const appsLife = {
  restart: changeCommand({
    name: "apps restart",
    about:
      "Replace all replicas of an app step by step with new ones of the same release; no call fails.",
    examples: ["apps restart hello"],
    of: "app",
    isNamed: true,
    hints: { 409: ({ path }) => `To see its state: slipway apps show ${path.app_id}` },
    change: ({ api, path }) => answerOf(api.POST(`${route}/restart`, { params: { path } })),
    said,
  }),

  stop: changeCommand({
    name: "apps stop",
    about:
      "Stop an app until it is started. New calls are refused, running ones may end, and runs in the background wait.",
    examples: ["apps stop hello"],
    of: "app",
    isNamed: true,
    hints: { 409: ({ path }) => `To start it: slipway apps start ${path.app_id}` },
    change: ({ api, path }) => answerOf(api.POST(`${route}/stop`, { params: { path } })),
    said: (answer, { given }) =>
      `${answer.message} To start it again: slipway apps start ${given.operand("app")}`,
  }),

  start: changeCommand({
    name: "apps start",
    about: "Start a stopped app: it takes calls again, and its waiting runs go on.",
    examples: ["apps start hello"],
    of: "app",
    isNamed: true,
    hints: { 409: ({ path }) => `To see its state: slipway apps show ${path.app_id}` },
    change: ({ api, path }) => answerOf(api.POST(`${route}/start`, { params: { path } })),
    said,
  }),

  "resume-deploys": changeCommand({
    name: "apps resume-deploys",
    about: "Deploy pushes again, after a rollback has paused that. The next push is deployed.",
    examples: ["apps resume-deploys hello"],
    of: "app",
    isNamed: true,
    change: ({ api, path }) => answerOf(api.POST(`${route}/resume-deploys`, { params: { path } })),
    said,
  }),

  delete: changeCommand({
    name: "apps delete",
    about: `Delete an app. Its calls are refused at once, and its replicas, logs, runs, results, secrets and storage of its own
are removed; its audit log and usage are kept. This cannot be undone.`,
    examples: ["apps delete hello", "apps delete hello --yes"],
    of: "app",
    isNamed: true,
    question: ({ given }) =>
      `Delete the app ${given.operand("app")} with its logs, runs, secrets and storage of its own?`,
    change: ({ api, path }) => answerOf(api.DELETE(route, { params: { path } })),
    said,
  }),
};
