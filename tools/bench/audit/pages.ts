// Latency of pages of a large audit log, each from another project and position than the previous
// one: first, filtered and deep pages.
import { createHash } from "node:crypto";
import { AuditLog, auditToken } from "@slipway/server/src/audit/audit-log.ts";
import { readLinks } from "@slipway/server/src/audit/export/export-store.ts";
import { readInstant } from "@slipway/server/src/audit/instant.ts";
import { showEntry } from "@slipway/server/src/audit/shown-entry.ts";
import { systemClock } from "@slipway/server/src/lib/clock.ts";
import type { ProjectId } from "@slipway/server/src/lib/ids.ts";
import type { Db } from "@slipway/server/src/store/database.ts";

/** Where, and how many pages of each kind. */
export type PageBench = {
  readonly db: Db;
  readonly projects: readonly ProjectId[];
  readonly rowsOfProject: number;
  readonly pagesOfKind: number;
};

export type PageTimes = {
  readonly name: string;
  readonly timesMs: readonly number[];
  readonly entries: number;
};

/** What a reader of the log filters by, and the position to go on from. */
type Filter = Partial<Parameters<AuditLog["page"]>[0]>;
type Kind = readonly [
  name: string,
  filter: (project: ProjectId, index: number) => Filter | Promise<Filter>,
];

const limit = 50;
/** The offset of the thousandth page, in entries. */
const deepEntries = 999 * limit;
const none = {
  from: null,
  to: null,
  action: null,
  actorId: null,
  outcome: null,
  nextToken: null,
} as const;

/** The id of the actor with this number in a project, as fill.ts creates it. */
function actorOf(project: ProjectId, actor: number): string {
  return createHash("md5").update(`${project}${actor}`).digest("hex");
}

/** Measures each kind of page, including the conversion to what the API answers. */
export async function measurePages(bench: PageBench): Promise<PageTimes[]> {
  const log = new AuditLog({ db: bench.db, clock: systemClock, retentionOf: () => 365 });
  const measured: PageTimes[] = [];
  for (const [name, filterOf] of kindsOf(bench)) {
    const timesMs: number[] = [];
    let entries = 0;
    for (let index = 0; index < bench.pagesOfKind; index++) {
      const projectId = bench.projects[(index * 7) % bench.projects.length] as ProjectId;
      const filter = { ...none, projectId, limit, ...(await filterOf(projectId, index)) };
      const began = performance.now();
      const page = await log.page(filter);
      JSON.stringify(page.items.map(showEntry));
      timesMs.push(performance.now() - began);
      entries += page.items.length;
    }
    measured.push({ name, timesMs, entries });
  }
  return measured;
}

function kindsOf({ db, rowsOfProject }: PageBench): Kind[] {
  const dayOf = (index: number): string =>
    new Date(Date.now() - (10 + (index % 300)) * 86_400_000).toISOString();
  const deep = async (projectId: ProjectId, filter: Filter): Promise<Filter> => {
    const after = Math.max(0, rowsOfProject - deepEntries);
    const [row] = await readLinks(db, { chain: projectId, after, through: after + 1, limit: 1 });
    if (row === undefined) throw new Error("there is no thousandth page");
    const position = { atMicros: row.at_micros, id: row.id };
    return { ...filter, nextToken: auditToken({ ...none, projectId, ...filter }, position) };
  };
  return [
    ["first page", () => ({})],
    ["a frequent action", () => ({ action: "project.create" })],
    ["a rare action", () => ({ action: "audit_log.read" })],
    ["an actor", (project, index) => ({ actorId: actorOf(project, index % 200) })],
    [
      "an actor and an action",
      (project, index) => ({ actorId: actorOf(project, index % 200), action: "member.add" }),
    ],
    ["failures", () => ({ outcome: "failure" })],
    [
      "an actor's failures of an action",
      (project) => ({ actorId: actorOf(project, 3), action: "token.create", outcome: "failure" }),
    ],
    [
      "an action up to a day",
      (_, index) => ({ action: "token.create", to: readInstant(dayOf(index)) }),
    ],
    ["an action that does not exist", () => ({ action: "no.such" })],
    ["thousandth page", (project) => deep(project, {})],
    ["thousandth page and an action", (project) => deep(project, { action: "project.create" })],
    [
      "thousandth page and an actor",
      (project, index) => deep(project, { actorId: actorOf(project, index % 200) }),
    ],
  ];
}
