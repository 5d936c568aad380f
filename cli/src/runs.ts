// `slipway runs …`: the runs of an app.
import { answerOf } from "@slipway/client/client.ts";
import { runStates } from "@slipway/contract/words.ts";
import { exitCodes, misuse } from "./refused.ts";
import {
  changeCommand,
  choice,
  defined,
  limitOption,
  listCommand,
  paged,
  resourceCommand,
  showCommand,
  type At,
} from "./resource.ts";
import { printResult, runOf, waitForRun } from "./run-result.ts";
import { spanText } from "./since.ts";
import { moment, state } from "./table.ts";

const route = "/v2/projects/{project_id}/apps/{app_id}/runs" as const;
const deadRoute = "/v2/projects/{project_id}/apps/{app_id}/dead-runs" as const;
const runOperand = {
  name: "run",
  about: "The run id, which is also the X-Request-Id of the call.",
} as const;
const deadOptions = {
  status: { value: "<status>", about: "With --all: only those that ended as failure or timeout." },
};

/** The commands of runs, by verb. */
export const runs = {
  list: listCommand({
    name: "runs list",
    about: `List the runs of an app, newest first: runs in the background, and calls that have ended. With --dead: runs that
failed for good and can be run again.`,
    examples: [
      "runs list hello",
      "runs list hello --async --status failure",
      "runs list hello --dead -n 200",
    ],
    of: "app",
    options: {
      async: { value: null, about: "Only runs in the background." },
      status: { value: "<status>", about: `${runStates.join(", ")}.` },
      dead: { value: null, about: "Only those that failed for good, and whose request is kept." },
      ...limitOption,
    },
    async items(at) {
      const { given, machine, api, path } = at;
      if (given.has("dead")) {
        const status = choice(given, "status", ["failure", "timeout"]);
        return await paged(at, (page) =>
          answerOf(
            api.GET(deadRoute, { params: { path, query: { ...page, ...defined({ status }) } } }),
          ),
        );
      }
      const filter = {
        asyncOnly: given.has("async"),
        ...defined({ status: choice(given, "status", runStates) }),
      };
      let leftOut = 0;
      const found = await paged(at, async (page) => {
        const query = { ...page, ...filter };
        const answer = await answerOf(api.GET(route, { params: { path, query } }));
        leftOut += answer.callsLeftOut;
        return answer;
      });
      if (leftOut > 0)
        machine.tell(
          `${leftOut} more calls are not listed: of those that succeed, a sample is recorded.`,
        );
      return found;
    },
    columns: {
      RUN: ({ id }) => id,
      STATE: ({ status }) => state(status),
      CODE: ({ statusCode }) => statusCode,
      FUNCTION: ({ functionName }) => functionName,
      KIND: kindOf,
      CREATED: ({ createdAt }) => moment(createdAt),
      TOOK: ({ totalResponseTimeMs }) => spanText(totalResponseTimeMs),
      REASON: ({ reason }) => reason ?? "",
    },
    none: "There are none.",
  }),

  show: showCommand({
    name: "runs show",
    about: "Show a run: its state and why, its attempts, and where the time went.",
    examples: ["runs show hello 0b8f2c1e-5c1d-4c55-9f5e-0a9f3a1d2b3c"],
    of: "app",
    hints: { 404: ({ path }) => `To list them: slipway runs list ${path.app_id}` },
    operands: [runOperand],
    item: (at) => runOf(at, at.given.operand("run")),
    fields: (run) => ({
      Run: run.id,
      State: state(run.status),
      Reason: run.reason,
      "App's status": run.statusCode,
      Call: `${run.method} ${run.functionName}`,
      Attempts: run.attempts,
      Replica: run.containerId,
      Releases: run.releases.map((number) => `v${number}`).join(", "),
      Created: moment(run.createdAt),
      Started: moment(run.startedAt),
      Ended: moment(run.endedAt),
      Waited: spanText(run.totalQueueTimeMs),
      Ran: spanText(run.executionTimeMs),
      Webhook: run.webhookEndpoint,
      "Run again as": run.redrivenAs,
    }),
  }),

  result: resourceCommand({
    name: "runs result",
    about:
      "Print the app's answer to a run in the background. The exit code is 1 if the app answered with an error.",
    examples: [
      "runs result hello 0b8f2c1e-5c1d-4c55-9f5e-0a9f3a1d2b3c",
      "runs result hello 0b8f2c1e-5c1d-4c55-9f5e-0a9f3a1d2b3c --wait --timeout 10m",
    ],
    of: "app",
    hints: { 409: () => "To wait for its end: --wait" },
    operands: [runOperand],
    options: {
      wait: { value: null, about: "Wait until it has ended." },
      timeout: {
        value: "<time>",
        about: "With --wait: how long, such as 30s or 10m. Default: 1h.",
      },
    },
    async run(at) {
      const runId = at.given.operand("run");
      if (at.given.has("wait")) await waitForRun(at, runId);
      const status = await printResult(at, runId);
      return status < 400 ? 0 : exitCodes.failed;
    },
  }),

  cancel: changeCommand({
    name: "runs cancel",
    about: "Cancel a run in the background that has not ended, at any stage.",
    examples: ["runs cancel hello 0b8f2c1e-5c1d-4c55-9f5e-0a9f3a1d2b3c"],
    of: "app",
    hints: { 404: ({ path }) => `To list them: slipway runs list ${path.app_id}` },
    operands: [runOperand],
    async change({ api, path, given }) {
      const params = { path: { ...path, run_id: given.operand("run") } };
      return (await answerOf(api.DELETE(`${route}/{run_id}`, { params }))).item;
    },
    said: ({ id, status }) => `Run ${id} is now in state ${status}.`,
  }),

  redrive: changeCommand({
    name: "runs redrive",
    about:
      "Run a failed run again as a new one, with the same request and webhook; or with --all every one that failed for good.",
    examples: [
      "runs redrive hello 0b8f2c1e-5c1d-4c55-9f5e-0a9f3a1d2b3c",
      "runs redrive hello --all --status timeout",
    ],
    of: "app",
    operands: [{ ...runOperand, isOptional: true }],
    options: { all: { value: null, about: "All that failed for good." }, ...deadOptions },
    async change({ api, path, given }) {
      const run_id = given.operand("run");
      if ((run_id === "") !== given.has("all")) throw misuse("Give either a run id or --all.");
      if (run_id !== "") {
        const params = { path: { ...path, run_id } };
        const { runId } = await answerOf(api.POST(`${route}/{run_id}/redrive`, { params }));
        return { runId, redriven: 1 };
      }
      const query = deadQuery(given);
      let redriven = 0;
      for (let hasMore = true; hasMore;) {
        const answer = await answerOf(
          api.POST(`${deadRoute}/redrive`, { params: { path, query } }),
        );
        redriven += answer.redriven;
        // A request that redrives none would be repeated for ever.
        hasMore = answer.hasMore && answer.redriven > 0;
      }
      return { runId: null, redriven };
    },
    said: ({ runId, redriven }) =>
      runId === null ? `Redriven: ${redriven}.` : `The new run is ${runId}.`,
  }),

  purge: changeCommand({
    name: "runs purge",
    about:
      "Delete the stored requests of all runs that failed for good: they stay listed, but cannot be run again.",
    examples: ["runs purge hello --yes", "runs purge hello --status timeout"],
    of: "app",
    isNamed: true,
    options: deadOptions,
    question: ({ path }) => `Delete the stored requests of the failed runs of ${path.app_id}?`,
    async change({ api, path, given }) {
      const query = deadQuery(given);
      let purged = 0;
      for (let hasMore = true; hasMore;) {
        const answer = await answerOf(api.DELETE(deadRoute, { params: { path, query } }));
        purged += answer.purged;
        hasMore = answer.hasMore && answer.purged > 0;
      }
      return { purged };
    },
    said: ({ purged }) => `Purged: ${purged}.`,
  }),
};

function deadQuery(given: At["given"]) {
  return defined({ status: choice(given, "status", ["failure", "timeout"]) });
}

function kindOf(run: { readonly websocket: boolean; readonly async: boolean }): string {
  if (run.websocket) return "socket";
  return run.async ? "async" : "call";
}
