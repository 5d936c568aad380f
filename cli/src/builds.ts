// `slipway builds …`: the builds of an app.
import { answerOf } from "@slipway/client/client.ts";
import { buildOf, buildOperand, showBuildLog } from "./build-log.ts";
import {
  changeCommand,
  defined,
  listCommand,
  resourceCommand,
  showCommand,
  type At,
} from "./resource.ts";
import { spanText } from "./since.ts";
import { moment, state } from "./table.ts";

const route = "/v2/projects/{project_id}/apps/{app_id}/builds" as const;
const shortCommit = 10;

/** The commands of builds, by verb. */
export const builds = {
  list: listCommand({
    name: "builds list",
    about: "List the latest builds of an app, newest first.",
    examples: ["builds list hello", "builds list hello --json"],
    of: "app",
    items: ({ api, path }) => answerOf(api.GET(route, { params: { path } })),
    columns: {
      BUILD: ({ number }) => number,
      STATE: ({ status }) => state(status),
      CAUSE: ({ cause }) => cause,
      CREATED: ({ createdAt }) => moment(createdAt),
      TOOK: (build) => tookText(build),
      COMMIT: ({ commit }) => commit?.slice(0, shortCommit) ?? null,
      MESSAGE: ({ commitMessage }) => commitMessage?.split("\n", 1)[0] ?? "",
      REASON: ({ reason }) => reason ?? "",
    },
    none: "The app has no builds yet.",
  }),

  show: showCommand({
    name: "builds show",
    about: "Show a build: its state and why, its commit, and its times.",
    examples: ["builds show hello", "builds show hello 3"],
    of: "app",
    operands: [buildOperand],
    item: (at) => buildOf(at, at.given.operand("build")),
    fields: (build) => ({
      Build: build.number,
      Id: build.id,
      State: state(build.status),
      Reason: build.reason,
      Cause: build.cause,
      Branch: build.branch,
      Commit: build.commit,
      Message: build.commitMessage,
      Author: build.commitAuthor,
      Created: moment(build.createdAt),
      Started: moment(build.startedAt),
      Ended: moment(build.endedAt),
      Took: tookText(build),
    }),
  }),

  logs: resourceCommand({
    name: "builds logs",
    about:
      "Show the log of a build, oldest line first. With -f, until the build ends; the exit code is 1 if it has failed.",
    examples: ["builds logs hello", "builds logs hello 3 -f"],
    of: "app",
    operands: [buildOperand],
    options: { follow: { value: null, about: "Follow it until the build ends.", short: "f" } },
    run: (at) => showBuildLog(at, at.given.operand("build"), null),
  }),

  start: changeCommand({
    name: "builds start",
    about:
      "Build the newest commit of the app's branch, or of another branch, or a given tag or commit. A build that succeeds is released.",
    examples: [
      "builds start hello",
      "builds start hello --branch v1.2",
      "builds start hello --commit 1a2b3c4",
    ],
    of: "app",
    options: {
      branch: { value: "<branch>", about: "The newest commit of this branch, or this tag, once." },
      commit: { value: "<commit>", about: "This commit, by 7 of its digits or more." },
    },
    async change({ given, api, path }) {
      const body = defined({ branch: given.text("branch"), commit: given.text("commit") });
      return await answerOf(api.POST(route, { params: { path }, body }));
    },
    said: startedText,
  }),

  again: changeCommand({
    name: "builds again",
    about: "Start a new build of the same commit with the same settings.",
    examples: ["builds again hello", "builds again hello 3"],
    of: "app",
    operands: [buildOperand],
    change: async (at) =>
      await answerOf(
        at.api.POST(`${route}/{build_id}/rebuild`, { params: { path: await pathOf(at) } }),
      ),
    said: startedText,
  }),

  cancel: changeCommand({
    name: "builds cancel",
    about: "Cancel a build that has not ended.",
    examples: ["builds cancel hello", "builds cancel hello 3"],
    of: "app",
    operands: [buildOperand],
    change: async (at) =>
      await answerOf(at.api.DELETE(`${route}/{build_id}`, { params: { path: await pathOf(at) } })),
    said: ({ number, status }) =>
      status === "cancelled"
        ? `Build ${number} is cancelled.`
        : `Build ${number} is being cancelled; it was in state ${status}.`,
  }),
};

async function pathOf(at: At) {
  const { id } = await buildOf(at, at.given.operand("build"));
  return { ...at.path, build_id: id };
}

function startedText(
  { buildId, status }: { readonly buildId: string; readonly status: string },
  { path }: At,
): string {
  return `Build ${buildId} is in state ${status}. To follow it: slipway logs ${path.app_id} --build latest -f`;
}

function tookText({
  startedAt,
  endedAt,
}: {
  startedAt: string | null;
  endedAt: string | null;
}): string | null {
  return startedAt === null || endedAt === null
    ? null
    : spanText(Date.parse(endedAt) - Date.parse(startedAt));
}
