// `slipway releases …`: what was deployed.
import { answerOf } from "@slipway/client/client.ts";
import { misuse } from "./refused.ts";
import { limitOption, listCommand, paged, showCommand } from "./resource.ts";
import { moment, state } from "./table.ts";

const route = "/v2/projects/{project_id}/apps/{app_id}" as const;
const shortCommit = 10;
/** A release, as people write it. */
export const numberForm = /^v?(\d{1,9})$/i;

/** The commands of releases, by verb. */
export const releases = {
  list: listCommand({
    name: "releases list",
    about:
      "List the releases of an app, newest first, with the shares of the calls that they are to get and get now.",
    examples: ["releases list hello"],
    of: "app",
    options: limitOption,
    items: (at) =>
      paged(at, (query) =>
        answerOf(at.api.GET(`${route}/releases`, { params: { path: at.path, query } })),
      ),
    columns: {
      RELEASE: ({ number }) => `v${number}`,
      STATE: (release) => state(release.state),
      "CALLS %": ({ trafficPercent }) => trafficPercent,
      "NOW %": ({ currentPercent }) => currentPercent,
      CREATED: ({ createdAt }) => moment(createdAt),
      CAUSE: ({ cause }) => cause,
      BY: ({ createdBy }) => createdBy?.name ?? null,
      COMMIT: ({ commit }) => commit?.slice(0, shortCommit) ?? null,
      MESSAGE: ({ commitMessage }) => commitMessage?.split("\n", 1)[0] ?? "",
    },
    none: "The app has no releases yet.",
  }),

  show: showCommand({
    name: "releases show",
    about: "Show a release with its settings.",
    examples: ["releases show hello 3"],
    of: "app",
    hints: { 404: ({ path }) => `To list them: slipway releases list ${path.app_id}` },
    operands: [{ name: "release", about: "Its number, such as 3 or v3." }],
    item: ({ api, path, given }) =>
      answerOf(
        api.GET(`${route}/releases/{release}`, {
          params: { path: { ...path, release: String(numberOf(given.operand("release"))) } },
        }),
      ),
    fields: (release) => ({
      Release: `v${release.number}`,
      State: state(release.state),
      Ended: release.endReason,
      "Calls %": release.trafficPercent,
      "Calls now %": release.currentPercent,
      "Can be gone back to": release.isStartable ? "yes" : "no",
      Cause: release.cause,
      By: release.createdBy?.name ?? null,
      Branch: release.branch,
      Commit: release.commit,
      Message: release.commitMessage,
      Build: release.buildId,
      Created: moment(release.createdAt),
      "First took calls": moment(release.promotedAt),
      ...Object.fromEntries(
        Object.entries(release.settings).map(([name, value]) => [
          `  ${name}`,
          typeof value === "string" ? value : JSON.stringify(value),
        ]),
      ),
    }),
  }),
};

/** The number of a release: `3` or `v3`. Throws `Refused`. */
export function numberOf(text: string): number {
  const [, digits] = numberForm.exec(text) ?? [];
  if (digits !== undefined) return Number(digits);
  throw misuse(
    `The release is "${text}", but must be a number such as 3 or v3. To list them: slipway releases list <app>`,
  );
}
