// `slipway audit list` and `slipway audit export`: who did what in a project.
import { answerOf } from "@slipway/client/client.ts";
import type { Option } from "./command.ts";
import { projectPath } from "./connection.ts";
import { timeBefore } from "./life.ts";
import {
  choice,
  defined,
  limitOption,
  listCommand,
  paged,
  resourceCommand,
  type At,
} from "./resource.ts";
import { moment, state } from "./table.ts";

const filterOptions = {
  since: { value: "<time>", about: "Only entries of the last 2h, 7d, …, or since a time." },
  until: { value: "<time>", about: "Only entries before that." },
  action: { value: "<action>", about: "Only this action, such as app.delete." },
  actor: { value: "<id>", about: "Only what the person or token with this id did." },
  outcome: { value: "<outcome>", about: "success or failure." },
} as const satisfies Record<string, Option>;

/** The commands of the audit log, by verb. */
export const auditLog = {
  list: listCommand({
    name: "audit list",
    about:
      "List entries of the audit log of the project, newest first: who did what, when, and whether it was refused.",
    examples: [
      "audit list",
      "audit list --since 7d --action app.delete",
      "audit list --outcome failure -n 200",
    ],
    of: "project",
    options: { ...filterOptions, ...limitOption },
    items: (at) =>
      paged(at, async ({ pageSize, nextToken }) => {
        const query = { ...filterOf(at), limit: pageSize, ...defined({ nextToken }) };
        const params = { path: at.path, query };
        const page = await answerOf(at.api.GET("/v2/projects/{project_id}/audit-log", { params }));
        return { items: page.logs, nextToken: page.nextPageToken };
      }),
    columns: {
      WHEN: ({ timestamp }) => moment(timestamp),
      ACTION: ({ action }) => action,
      BY: ({ actor }) => actor.name ?? actor.type,
      OUTCOME: ({ outcome }) => state(outcome),
      ON: ({ resource }) =>
        resource === null ? "" : `${resource.type} ${resource.name ?? resource.id ?? ""}`.trim(),
      FROM: ({ address }) => address ?? "",
      REASON: ({ reason }) => reason ?? "",
    },
    none: "There are no such entries.",
  }),

  export: resourceCommand({
    name: "audit export",
    about: `Export the audit log of the project to standard output, oldest entry first. An export without filters can be
verified on any machine: slipway audit verify.`,
    examples: ["audit export > audit.ndjson", "audit export --format csv --since 30d > audit.csv"],
    of: "project",
    options: {
      format: { value: "<format>", about: "ndjson or csv. Default: ndjson, as with --json." },
      ...filterOptions,
    },
    async run(at) {
      const format = at.given.has("json")
        ? "ndjson"
        : (choice(at.given, "format", ["ndjson", "csv"]) ?? "ndjson");
      const search = new URLSearchParams({ ...filterOf(at), format });
      const path = projectPath(at.path.project_id, `/audit-log/export?${search.toString()}`);
      for await (const part of (await at.client.download(path)).bytes) at.machine.write(part);
    },
  }),
};

function filterOf({ given }: At) {
  const nowMs = Date.now();
  const timeOf = (option: "since" | "until"): string | undefined => {
    const text = given.text(option);
    return text === undefined ? undefined : timeBefore(text, { option: `--${option}`, nowMs });
  };
  return defined({
    from: timeOf("since"),
    to: timeOf("until"),
    action: given.text("action"),
    actor: given.text("actor"),
    outcome: choice(given, "outcome", ["success", "failure"]),
  });
}
