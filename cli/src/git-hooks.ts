// `slipway git hook …` and `slipway git deliveries …`: deploying what is pushed.
import { answerOf } from "@slipway/client/client.ts";
import { changeCommand, limitOption, listCommand, paged, showCommand } from "./resource.ts";
import { moment, state } from "./table.ts";

const route = "/v2/projects/{project_id}/apps/{app_id}/git-hook" as const;
const deliveriesRoute = "/v2/projects/{project_id}/apps/{app_id}/git-deliveries" as const;
const shortCommit = 10;

/** The commands of hook addresses, by verb. */
export const gitHook = {
  show: showCommand({
    name: "git hook show",
    about: "Show the address that a git host sends the pushes of an app to, without its secret.",
    examples: ["git hook show hello"],
    of: "app",
    item: ({ api, path }) => answerOf(api.GET(route, { params: { path } })),
    fields: (hook) => ({
      Address: hook.url,
      Created: moment(hook.createdAt),
      "Secret replaced": moment(hook.rotatedAt),
      "Last push": moment(hook.lastDeliveryAt),
    }),
  }),

  create: changeCommand({
    name: "git hook create",
    about: `Make the address that a git host sends the pushes of an app to, and print its secret, which is not shown again. If
the app has an address, it keeps it and gets a new secret; the old one is invalid at once.`,
    examples: ["git hook create hello"],
    of: "app",
    change: ({ api, path }) => answerOf(api.POST(route, { params: { path } })),
    said: ({ url }) =>
      `In the settings of the repository, add a webhook to ${url} for pushes as JSON, with this secret:`,
    result: ({ secret }) => secret,
  }),
};

/** The commands of push events, by verb. */
export const gitDeliveries = {
  list: listCommand({
    name: "git deliveries list",
    about: "List the latest pushes of an app that arrived, newest first, and what became of them.",
    examples: ["git deliveries list hello"],
    of: "app",
    options: limitOption,
    items: (at) =>
      paged(at, (query) =>
        answerOf(at.api.GET(deliveriesRoute, { params: { path: at.path, query } })),
      ),
    columns: {
      DELIVERY: ({ id }) => id,
      OUTCOME: ({ verdict }) => state(verdict),
      RECEIVED: ({ receivedAt }) => moment(receivedAt),
      REF: ({ ref }) => ref?.replace(/^refs\/(?:heads|tags)\//, "") ?? null,
      COMMIT: ({ commit }) => commit?.slice(0, shortCommit) ?? null,
      REASON: ({ reason }) => reason,
    },
    none: "No push has arrived yet.",
  }),

  replay: changeCommand({
    name: "git deliveries replay",
    about:
      "Process a push again, with the settings that the app has now and the newest commit of its branch.",
    examples: ["git deliveries replay hello 0b8f2c1e-5c1d-4c55-9f5e-0a9f3a1d2b3c"],
    of: "app",
    operands: [{ name: "delivery", about: "Its id." }],
    change: ({ api, path, given }) =>
      answerOf(
        api.POST(`${deliveriesRoute}/{git_delivery_id}/replay`, {
          params: { path: { ...path, git_delivery_id: given.operand("delivery") } },
        }),
      ),
    said: ({ verdict, reason }) => `Outcome: ${verdict}. ${reason}`,
  }),
};
