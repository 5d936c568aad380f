// `slipway webhooks endpoints …` and `slipway webhooks schedule`: where deliveries go, and how
// often they are retried.
import { answerOf } from "@slipway/client/client.ts";
import { misuse } from "./refused.ts";
import { changeCommand, limitOption, listCommand, paged, type At } from "./resource.ts";
import { moment, state } from "./table.ts";

const route = "/v2/projects/{project_id}/webhook-endpoints" as const;
const endpointOperand = { name: "endpoint", about: "Its id." } as const;

/** The commands of webhook endpoints, by verb. */
export const webhookEndpoints = {
  list: listCommand({
    name: "webhooks endpoints list",
    about:
      "List the URLs that deliveries of the project go to, newest first, with what waits for them.",
    examples: ["webhooks endpoints"],
    of: "project",
    options: limitOption,
    items: (at) =>
      paged(at, (query) => answerOf(at.api.GET(route, { params: { path: at.path, query } }))),
    columns: {
      ENDPOINT: ({ id }) => id,
      STATE: (endpoint) => state(stateOf(endpoint)),
      WAITING: ({ waiting }) => waiting,
      "LAST SUCCESS": ({ lastSuccessAt }) => moment(lastSuccessAt),
      URL: ({ url }) => url,
      "LAST FAILURE": ({ lastFailure }) => lastFailure ?? "",
    },
    none: "Nothing was sent to a webhook yet.",
  }),

  pause: changeCommand({
    name: "webhooks endpoints pause",
    about: "Pause deliveries to an endpoint until it is resumed.",
    examples: ["webhooks endpoints pause 0b8f2c1e-5c1d-4c55-9f5e-0a9f3a1d2b3c"],
    of: "project",
    operands: [endpointOperand],
    change: async (at) =>
      (await answerOf(at.api.POST(`${route}/{endpoint_id}/pause`, paramsOf(at)))).item,
    said: ({ url, waiting }) => `Deliveries to ${url} are paused; ${waiting} wait.`,
  }),

  resume: changeCommand({
    name: "webhooks endpoints resume",
    about: "Resume deliveries to a paused endpoint.",
    examples: ["webhooks endpoints resume 0b8f2c1e-5c1d-4c55-9f5e-0a9f3a1d2b3c"],
    of: "project",
    operands: [endpointOperand],
    change: async (at) =>
      (await answerOf(at.api.POST(`${route}/{endpoint_id}/resume`, paramsOf(at)))).item,
    said: ({ url }) => `Deliveries to ${url} go on.`,
  }),
};

/** Shows or chooses the schedule. */
export const webhookSchedule = changeCommand({
  name: "webhooks schedule",
  about: `Show or choose how often failed deliveries of the project are retried. standard: 10 attempts over about 75 hours;
short: 3 attempts within seconds.`,
  examples: ["webhooks schedule", "webhooks schedule short"],
  of: "project",
  operands: [{ name: "schedule", about: "standard or short. Default: show it.", isOptional: true }],
  async change({ api, path, given }) {
    const scheduleRoute = "/v2/projects/{project_id}/webhook-schedule" as const;
    const schedule = given.operand("schedule");
    if (schedule === "") return await answerOf(api.GET(scheduleRoute, { params: { path } }));
    if (schedule !== "standard" && schedule !== "short") {
      throw misuse(`The schedule is "${schedule}", but must be standard or short.`);
    }
    return await answerOf(api.PUT(scheduleRoute, { params: { path }, body: { schedule } }));
  },
  said: () => "Failed deliveries are retried on the schedule:",
  result: ({ schedule }) => schedule,
});

function paramsOf({ path, given }: At) {
  return { params: { path: { ...path, endpoint_id: given.operand("endpoint") } } };
}

type EndpointTimes = { readonly pausedAt: string | null; readonly failingSince: string | null };

function stateOf({ pausedAt, failingSince }: EndpointTimes): string {
  if (pausedAt !== null) return "paused";
  return failingSince !== null ? "failing" : "active";
}
