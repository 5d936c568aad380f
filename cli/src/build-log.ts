// Shared by `slipway logs --build` and `slipway builds`: finds a build by its number or id, and
// shows its log.
import { answerOf } from "@slipway/client/client.ts";
import { fieldsOf, textOf, textOrNull, type Fields } from "./answer.ts";
import { withCommands } from "./command-advice.ts";
import { PrintedLines } from "./build-follow.ts";
import { projectPath } from "./connection.ts";
import { follow } from "./following.ts";
import { plain, plainJson } from "./plain-text.ts";
import { exitCodes, Refused } from "./refused.ts";
import type { At } from "./resource.ts";

const route = "/v2/projects/{project_id}/apps/{app_id}/builds" as const;
const idForm = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const unfinished = new Set(["pending", "building", "initializing"]);

/** The operand of commands on a build. */
export const buildOperand = {
  name: "build",
  about: "Its number, such as 3, or its id. Default: the latest.",
  isOptional: true,
} as const;

/** The build that was named; "": the latest. Throws `Refused` when the app has none like it. */
export async function buildOf({ api, path }: At, named: string) {
  if (idForm.test(named)) {
    return await answerOf(
      api.GET(`${route}/{build_id}`, { params: { path: { ...path, build_id: named } } }),
    );
  }
  const builds = await answerOf(api.GET(route, { params: { path } }));
  const found =
    named === "" || named === "latest"
      ? builds[0]
      : builds.find(({ number }) => String(number) === named);
  if (found !== undefined) return found;
  const what = named === "" ? "no builds yet" : `no build "${plain(named)}" among its latest`;
  throw new Refused(`The app has ${what}. To list them: slipway builds list ${path.app_id}`, {
    exitCode: exitCodes.notFound,
  });
}

/**
 * Prints the log of the build; with `-f` until the build ends. Resolves with the exit code: 1 when
 * the build has failed.
 */
export async function showBuildLog(at: At, named: string, count: number | null): Promise<number> {
  const { given, client, machine, path } = at;
  const { id } = await buildOf(at, named);
  const rest = `/apps/${encodeURIComponent(path.app_id)}/builds/${id}/logs`;
  const printed = new PrintedLines();
  const print = (line: Fields): void => {
    if (given.has("json")) return machine.print(plainJson(line));
    printed.add(textOf(line, "log"));
    machine.print(shownLine(line));
  };
  if (given.has("follow")) {
    const address = projectPath(path.project_id, `${rest}?follow=true`);
    const end = await follow(client, {
      path: address,
      from: null,
      tell: (message: string) => machine.tell(message),
      print: ({ data }) => print(fieldsOf(JSON.parse(data))),
    });
    return ended(at, fieldsOf(JSON.parse(end)), printed);
  }
  const lines: Fields[] = [];
  for (let nextToken: string | undefined; ;) {
    const query = nextToken === undefined ? {} : { nextToken };
    const params = { path: { ...path, build_id: id }, query };
    const page = await answerOf(at.api.GET(`${route}/{build_id}/logs`, { params }));
    lines.push(...page.logs);
    nextToken = page.nextPageToken;
    if (nextToken !== undefined) continue;
    for (const line of lastOf(lines, count)) print(line);
    return unfinished.has(page.status) ? 0 : ended(at, { status: page.status }, printed);
  }
}

/** The last `count` lines; null: all. */
function lastOf(lines: readonly Fields[], count: number | null): readonly Fields[] {
  if (count === null) return lines;
  return count === 0 ? [] : lines.slice(-count);
}

/** Tells how the build ended. Only who follows it gets its end as exit code. */
function ended({ machine, given }: At, end: Fields, printed: PrintedLines): number {
  const status = textOf(end, "status");
  const reason = textOrNull(end, "reason");
  machine.tell(
    `The build ended: ${plain(status)}${reason === null || printed.have(reason) ? "" : `. ${plain(reason)}`}`,
  );
  return status === "success" || !given.has("follow") ? 0 : exitCodes.failed;
}

function shownLine(line: Fields): string {
  return `${textOf(line, "createdAt")}  ${plain(textOf(line, "stage")).padEnd(8)}  ${withCommands(plain(textOf(line, "log")))}`;
}
