// `slipway rollouts …`: how the calls of an app move to a new release.
import { answerOf } from "@slipway/client/client.ts";
import { fieldsOf } from "./answer.ts";
import { projectPath } from "./connection.ts";
import { follow } from "./following.ts";
import { printJson } from "./output.ts";
import { plain, plainJson } from "./plain-text.ts";
import { changeCommand, resourceCommand, type At } from "./resource.ts";
import { moment, printFields, state } from "./table.ts";

const route = "/v2/projects/{project_id}/apps/{app_id}/rollout" as const;

type RollOut = {
  readonly state: string;
  readonly release: number;
  readonly fromRelease: number;
  readonly share: number;
  readonly currentShare: number;
  readonly reason: string | null;
};

const said = (one: RollOut): string => rollOutText(one);

/** The commands of roll-outs, by verb. */
export const rollouts = {
  show: resourceCommand({
    name: "rollouts show",
    about:
      "Show the latest roll-out of an app: which share of the calls goes to the new release. With -f, until it ends.",
    examples: ["rollouts show hello", "rollouts show hello -f"],
    of: "app",
    hints: { 404: ({ path }) => `To list its releases: slipway releases list ${path.app_id}` },
    options: {
      follow: { value: null, about: "Print each change, until the roll-out ends.", short: "f" },
    },
    async run(at) {
      if (at.given.has("follow")) return await followRollOut(at);
      const found = await answerOf(at.api.GET(route, { params: { path: at.path } }));
      if (at.given.has("json")) return printJson(at.machine, found);
      const { calls } = found;
      printFields(at.machine, {
        State: state(found.state),
        Reason: found.reason,
        Release: `v${found.release}, after v${found.fromRelease}`,
        Share: `${found.currentShare} % of the calls now, ${found.share} % in this step`,
        [`Calls of v${found.release}`]: `${calls.release.calls}, errors (5xx): ${calls.release.failures}`,
        [`Calls of v${found.fromRelease}`]: `${calls.fromRelease.calls}, errors (5xx): ${calls.fromRelease.failures}`,
        Started: moment(found.startedAt),
        "Next step": moment(found.nextStepAt),
        Ended: moment(found.endedAt),
      });
    },
  }),

  pause: changeCommand({
    name: "rollouts pause",
    about: "Pause a roll-out: both releases keep their shares of the calls.",
    examples: ["rollouts pause hello"],
    of: "app",
    change: ({ api, path }) => answerOf(api.POST(`${route}/pause`, { params: { path } })),
    said,
  }),

  resume: changeCommand({
    name: "rollouts resume",
    about: "Resume a paused roll-out where it was.",
    examples: ["rollouts resume hello"],
    of: "app",
    change: ({ api, path }) => answerOf(api.POST(`${route}/resume`, { params: { path } })),
    said,
  }),

  finish: changeCommand({
    name: "rollouts finish",
    about:
      "End a roll-out now: the new release gets all calls as soon as its replicas can take them.",
    examples: ["rollouts finish hello"],
    of: "app",
    change: ({ api, path }) => answerOf(api.POST(`${route}/finish`, { params: { path } })),
    said,
  }),

  cancel: changeCommand({
    name: "rollouts cancel",
    about: "Roll back: the previous release gets all calls again.",
    examples: ["rollouts cancel hello"],
    of: "app",
    change: ({ api, path }) => answerOf(api.POST(`${route}/cancel`, { params: { path } })),
    said,
  }),
};

async function followRollOut({ given, machine, client, path }: At): Promise<void> {
  let last = "";
  const print = (data: string): void => {
    // The end repeats the last change.
    if (data === last || data === "") return;
    last = data;
    const rollOut = JSON.parse(data) as RollOut;
    machine.print(given.has("json") ? plainJson(fieldsOf(rollOut)) : rollOutText(rollOut));
  };
  const address = projectPath(
    path.project_id,
    `/apps/${encodeURIComponent(path.app_id)}/rollout?follow=true`,
  );
  const tell = (message: string): void => machine.tell(message);
  print(
    await follow(client, { path: address, from: null, print: ({ data }) => print(data), tell }),
  );
}

function rollOutText({ state: word, release, fromRelease, currentShare, reason }: RollOut): string {
  const stateText = word === "taken_back" ? "rolled back" : word.replaceAll("_", " ");
  const why = reason === null ? "" : ` ${reason}`;
  return plain(
    `The roll-out of v${release} after v${fromRelease} is ${stateText}, at ${currentShare} %.${why}`,
  );
}
