// `slipway logs`: shows the last lines that an app has printed, or the log of a build, and follows
// them live.
import { answerOf } from "@slipway/client/client.ts";
import { fieldsOf, textOf, type Fields } from "./answer.ts";
import { showBuildLog } from "./build-log.ts";
import { projectPath } from "./connection.ts";
import { follow } from "./following.ts";
import { timeBefore } from "./life.ts";
import type { Machine } from "./machine.ts";
import { plain, plainJson } from "./plain-text.ts";
import { misuse } from "./refused.ts";
import { defined, resourceCommand, wholeNumber, type At } from "./resource.ts";

const linesMax = 1000;
const linesDefault = 100;
/** What only the lines of an app have. */
const appFilters = ["run", "replica", "search", "stderr", "since"] as const;

/** Prints lines of an app, oldest first. */
export const showLogs = resourceCommand({
  name: "logs",
  about: `Show the last lines that an app has printed, oldest first, each with its time. With --build, show the log of a build
instead. With -f, go on with what comes, until Ctrl-C or the end of the build.`,
  examples: [
    "logs hello",
    "logs hello -f --since 10m",
    "logs hello --search error --stderr -n 500",
    "logs hello --run 0b8f2c1e-5c1d-4c55-9f5e-0a9f3a1d2b3c",
    "logs hello --build latest -f",
  ],
  of: "app",
  options: {
    follow: { value: null, about: "Go on with what is printed from now on.", short: "f" },
    lines: {
      value: "<count>",
      about: `How many lines to begin with, 0 to ${linesMax}. Default: ${linesDefault}; ${linesMax} with --since; all of a build.`,
      short: "n",
    },
    since: { value: "<time>", about: "Only lines of the last 10m, 2h, …, or since a time." },
    run: { value: "<run id>", about: "Only lines of this run." },
    replica: { value: "<replica>", about: "Only lines of this replica." },
    search: { value: "<text>", about: "Only lines that contain this text; case does not count." },
    stderr: { value: null, about: "Only what went to standard error." },
    build: { value: "<build>", about: "The log of a build: its number, its id, or latest." },
  },
  async run(at) {
    const { given } = at;
    const count = wholeNumber(given, "lines", { min: 0, max: linesMax });
    const build = given.text("build");
    if (build === undefined)
      return await showAppLog(at, count ?? (given.has("since") ? linesMax : linesDefault));
    const other = appFilters.find((option) => given.has(option));
    if (other !== undefined) throw misuse(`Use either --build or --${other}, not both.`);
    return await showBuildLog(at, build, count ?? null);
  },
});

async function showAppLog(at: At, count: number): Promise<void> {
  const { given, client, api, path, machine } = at;
  const filter = filterOf(at);
  const print = (line: Fields): void =>
    machine.print(given.has("json") ? plainJson(line) : shownLine(line, machine));
  const query = { ...filter, direction: "backward", pageSize: Math.max(1, count) } as const;
  const { logs } = await answerOf(
    api.GET("/v2/projects/{project_id}/apps/{app_id}/logs", { params: { path, query } }),
  );
  for (const line of logs.slice(0, count).toReversed()) print(line);
  if (!given.has("follow")) return;
  const search = new URLSearchParams({ ...filter, follow: "true" });
  await follow(client, {
    path: projectPath(
      path.project_id,
      `/apps/${encodeURIComponent(path.app_id)}/logs?${search.toString()}`,
    ),
    from: logs.length === 0 ? null : String(Math.max(...logs.map(({ lineNumber }) => lineNumber))),
    print: ({ data }) => print(fieldsOf(JSON.parse(data))),
    tell: (message) => machine.tell(message),
  });
}

function filterOf({ given }: At) {
  const since = given.text("since");
  return defined({
    runId: given.text("run"),
    container: given.text("replica"),
    search: given.text("search"),
    stream: given.has("stderr") ? ("stderr" as const) : undefined,
    afterDate:
      since === undefined ? undefined : timeBefore(since, { option: "--since", nowMs: Date.now() }),
  });
}

function shownLine(line: Fields, machine: Machine): string {
  return `${machine.paint("dim", plain(textOf(line, "timestamp")))}  ${plain(textOf(line, "logLine"))}`;
}
