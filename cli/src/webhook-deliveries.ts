// `slipway webhooks deliveries …`: answers that were sent to webhooks.
import { answerOf } from "@slipway/client/client.ts";
import { deliveryStates } from "@slipway/contract/words.ts";
import { timeBefore } from "./life.ts";
import { misuse } from "./refused.ts";
import {
  changeCommand,
  choice,
  defined,
  limitOption,
  listCommand,
  paged,
  showCommand,
  type At,
} from "./resource.ts";
import { spanText } from "./since.ts";
import { moment, printTable, state } from "./table.ts";

const route = "/v2/projects/{project_id}/webhook-deliveries" as const;
const endpointOption = {
  endpoint: { value: "<id>", about: "Only those to this endpoint." },
} as const;

/** The commands of webhook deliveries, by verb. */
export const webhookDeliveries = {
  list: listCommand({
    name: "webhooks deliveries list",
    about: "List the deliveries to webhooks of the project, newest first.",
    examples: ["webhooks deliveries", "webhooks deliveries list --state failed -n 200"],
    of: "project",
    options: {
      state: { value: "<state>", about: `${deliveryStates.join(", ")}.` },
      run: { value: "<run id>", about: "Only those of this run." },
      ...endpointOption,
      ...limitOption,
    },
    items(at) {
      const { given, api, path } = at;
      const filter = defined({
        state: choice(given, "state", deliveryStates),
        runId: given.text("run"),
        endpointId: given.text("endpoint"),
      });
      return paged(at, (page) =>
        answerOf(api.GET(route, { params: { path, query: { ...page, ...filter } } })),
      );
    },
    columns: {
      DELIVERY: ({ id }) => id,
      STATE: (one) => state(one.state),
      TRIES: ({ attempts }) => attempts,
      CREATED: ({ createdAt }) => moment(createdAt),
      NEXT: ({ dueAt }) => moment(dueAt),
      URL: ({ url }) => url,
      REASON: ({ reason }) => reason ?? "",
    },
    none: "There are no deliveries.",
  }),

  show: showCommand({
    name: "webhooks deliveries show",
    about: "Show a delivery with its attempts.",
    examples: ["webhooks deliveries show 0b8f2c1e-5c1d-4c55-9f5e-0a9f3a1d2b3c"],
    of: "project",
    hints: { 404: () => "To list them: slipway webhooks deliveries" },
    operands: [{ name: "delivery", about: "Its id." }],
    item: ({ api, path, given }) =>
      answerOf(
        api.GET(`${route}/{delivery_id}`, {
          params: { path: { ...path, delivery_id: given.operand("delivery") } },
        }),
      ),
    fields: ({ item }) => ({
      Delivery: item.id,
      State: state(item.state),
      Reason: item.reason,
      Url: item.url,
      Endpoint: item.endpointId,
      Run: item.runId,
      "App's status": item.statusCode,
      Created: moment(item.createdAt),
      "Next attempt": moment(item.dueAt),
      Ended: moment(item.endedAt),
    }),
    more({ attempts }, machine) {
      if (attempts.length === 0) return;
      const rows = attempts.map((one) => [
        one.number,
        moment(one.startedAt),
        spanText(one.durationMs),
        one.statusCode,
        one.reason ?? "",
      ]);
      machine.print("");
      printTable(machine, ["ATTEMPT", "STARTED", "TOOK", "STATUS", "REASON"], rows);
    },
  }),

  replay: changeCommand({
    name: "webhooks deliveries replay",
    about:
      "Send a delivery that has ended again, with the same webhook-id; or with --since all that failed since then.",
    examples: [
      "webhooks deliveries replay 0b8f2c1e-5c1d-4c55-9f5e-0a9f3a1d2b3c",
      "webhooks deliveries replay --since 2h",
    ],
    of: "project",
    operands: [{ name: "delivery", about: "Its id.", isOptional: true }],
    options: {
      since: { value: "<time>", about: "All created in the last 2h, 7d, …, or since a time." },
      until: { value: "<time>", about: "With --since: only those created before. Default: now." },
      state: { value: "<state>", about: "With --since: failed or delivered. Default: failed." },
      ...endpointOption,
    },
    change: replay,
    said: ({ replayed }) => `Deliveries that are sent again: ${replayed}.`,
  }),
};

async function replay({ api, path, given }: At): Promise<{ replayed: number }> {
  const delivery_id = given.operand("delivery");
  const since = given.text("since");
  if ((delivery_id === "") !== (since !== undefined))
    throw misuse("Give either the id of a delivery or --since.");
  if (since === undefined) {
    await answerOf(
      api.POST(`${route}/{delivery_id}/replay`, { params: { path: { ...path, delivery_id } } }),
    );
    return { replayed: 1 };
  }
  const nowMs = Date.now();
  const until = given.text("until");
  const body = {
    from: timeBefore(since, { option: "--since", nowMs }),
    to:
      until === undefined
        ? new Date(nowMs).toISOString()
        : timeBefore(until, { option: "--until", nowMs }),
    ...defined({
      state: choice(given, "state", ["failed", "delivered"]),
      endpointId: given.text("endpoint"),
    }),
  };
  let replayed = 0;
  for (let hasMore = true; hasMore;) {
    const answer = await answerOf(api.POST(`${route}/replay`, { params: { path }, body }));
    replayed += answer.replayed;
    hasMore = answer.hasMore && answer.replayed > 0;
  }
  return { replayed };
}
