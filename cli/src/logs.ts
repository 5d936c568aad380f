// `slipway logs`: shows the last lines that an app has printed, and follows them live.
import { fieldsOf, listOf, textOf, type Fields } from "./answer.ts";
import { ApiRefused, type ApiClient } from "./api-client.ts";
import { command, type Given } from "./command.ts";
import { connect, projectOf, projectOptions, projectPath } from "./connection.ts";
import type { Machine } from "./machine.ts";
import { plain } from "./plain-text.ts";
import { Refused } from "./refused.ts";

const linesMax = 1000;
const againMs = 1000;
/** How often in a row the connection may break before any line has come. */
const breaksMax = 30;

/** Prints lines of an app, oldest first. */
export const showLogs = command({
  name: "logs",
  about:
    "Show the last lines that an app has printed, oldest first. Each has its time and the text; --json has everything.",
  operands: [{ name: "app", about: "Name or id of the app." }],
  options: {
    follow: { value: null, about: "Go on with what is printed from now on, until Ctrl-C.", short: "f" },
    lines: { value: "<count>", about: `How many lines to begin with, 0 to ${linesMax}. Default: 100.`, short: "n" },
    run: { value: "<run id>", about: "Only lines of this run." },
    replica: { value: "<replica>", about: "Only lines of this replica." },
    search: { value: "<text>", about: "Only lines that contain this text; case does not count." },
    stderr: { value: null, about: "Only what went to standard error." },
    json: { value: null, about: "Print a line of JSON for each." },
    ...projectOptions,
  },
  async run(given, machine) {
    const count = countOf(given);
    const connection = connect(given, machine);
    const project = await projectOf(connection, given, machine);
    const path = projectPath(project, `/apps/${encodeURIComponent(given.operand("app"))}/logs`);
    const filter = filterOf(given);
    const print = (line: Fields): void => machine.print(given.has("json") ? JSON.stringify(line) : shownLine(line));
    const at = (query: Record<string, string>): string =>
      `${path}?${new URLSearchParams({ ...filter, ...query }).toString()}`;
    const page = at({ direction: "backward", pageSize: String(Math.max(1, count)) });
    const newest = listOf(fieldsOf(await connection.client.get(page))["logs"]);
    for (const line of newest.slice(0, count).reverse()) print(line);
    if (!given.has("follow")) return;
    const ids = newest.map((line) => Number(line["lineNumber"]));
    const from = ids.length === 0 ? null : String(Math.max(...ids));
    await follow(connection.client, {
      path: at({ follow: "true" }),
      from,
      print,
      machine,
    });
  },
});

type Following = {
  readonly path: string;
  /** The line after which it begins; null: now. */
  readonly from: string | null;
  readonly print: (line: Fields) => void;
  readonly machine: Machine;
};

/** Until the app or the right to read it is gone. After a lost connection it goes on after the last line. */
async function follow(client: ApiClient, { path, from, print, machine }: Following): Promise<void> {
  let lastId = from;
  for (let breaks = 0; breaks < breaksMax; breaks++) {
    try {
      for await (const { id, data } of client.events(path, lastId)) {
        print(fieldsOf(JSON.parse(data)));
        lastId = id;
        breaks = 0;
      }
    } catch (error) {
      const isFinal = error instanceof ApiRefused && error.status < 500 && error.status !== 429;
      if (!(error instanceof Refused) || isFinal) throw error;
      if (breaks === 0) machine.tell(`${error.message} Trying again...`);
    }
    await new Promise((resolve) => setTimeout(resolve, againMs));
  }
  throw new Refused(`${client.url} does not answer any more.`);
}

function countOf(given: Given): number {
  const text = given.text("lines") ?? "100";
  const count = Number(text);
  if (/^\d{1,4}$/.test(text) && count <= linesMax) return count;
  throw new Refused(`--lines is "${text}", but must be a whole number from 0 to ${linesMax}.`, { exitCode: 2 });
}

function filterOf(given: Given): Record<string, string> {
  const wanted = {
    runId: given.text("run"),
    container: given.text("replica"),
    search: given.text("search"),
    stream: given.has("stderr") ? "stderr" : undefined,
  };
  return Object.fromEntries(
    Object.entries(wanted).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

function shownLine(line: Fields): string {
  return `${textOf(line, "timestamp")}  ${plain(textOf(line, "logLine"))}`;
}
