// Benchmarks an audit log with millions of entries on its own embedded database, with the
// platform's code: pages, export, verification, and the cost of an entry per change. Removes
// everything that it creates.
import { createReadStream, createWriteStream, statSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Client } from "pg";
import { platformActor } from "@slipway/server/src/audit/record.ts";
import { AuditExport } from "@slipway/server/src/audit/export/audit-export.ts";
import { verifyExport } from "@slipway/cli/src/verify/verify-export.ts";
import { systemClock } from "@slipway/server/src/lib/clock.ts";
import type { ProjectId } from "@slipway/server/src/lib/ids.ts";
import { silentLog } from "@slipway/server/src/lib/log.ts";
import { Secret } from "@slipway/server/src/lib/secret.ts";
import { openDatabase, type Db } from "@slipway/server/src/store/database.ts";
import { migrate } from "@slipway/server/src/store/migrate.ts";
import { chainOn, testSigner, wholeLog } from "@slipway/server/test/support/audit-chain.ts";
import { openServer, Stage } from "#bench/async/stage.ts";
import { measureChanges, type ChangeKind } from "./change-cost.ts";
import { fillProjects, finishFill, prepareFill } from "./fill.ts";
import { measurePages, type PageTimes } from "./pages.ts";

export type AuditBenchOptions = {
  readonly rows: number;
  readonly projects: number;
  readonly rounds: number;
};

/** Of one complete export. */
export type Rate = { readonly entries: number; readonly bytes: number; readonly seconds: number };

export type AuditResult = {
  readonly fillSeconds: number;
  readonly databaseBytes: number;
  readonly pages: readonly PageTimes[];
  readonly exports: readonly Rate[];
  readonly verifications: readonly Rate[];
  readonly changes: Readonly<Record<ChangeKind, readonly number[]>>;
};

type Print = (line: string) => void;

const pagesOfKind = 1_000;
const exportsMax = 3;
const fillers = 2;
/**
 * Its id is new in each process, so that checkpoints of another process are not mistaken for its
 * own.
 */
const signer = testSigner(`bench-${process.pid}`);

/** Fills a database and measures it. */
export async function benchAudit(options: AuditBenchOptions, print: Print): Promise<AuditResult> {
  const stage = new Stage();
  try {
    const server = await openServer(stage);
    const url = new Secret(await server.database("audit"));
    await migrate({ url, log: silentLog });
    const began = performance.now();
    await fill({ stage, url, ...options }, print);
    const fillSeconds = (performance.now() - began) / 1000;
    print(`filled ${options.rows} entries in ${fillSeconds.toFixed(0)} s`);
    return { fillSeconds, ...(await measureAudit({ stage, url, ...options }, print)) };
  } finally {
    await stage.close();
  }
}

type Filled = AuditBenchOptions & { readonly stage: Stage; readonly url: Secret };

/** Measures a filled database, one benchmark after the other. */
async function measureAudit(
  { stage, url, ...options }: Filled,
  print: Print,
): Promise<Omit<AuditResult, "fillSeconds">> {
  const db = await openDatabase({ clock: systemClock, url, connections: 4, log: silentLog });
  stage.onClose(() => db.destroy());
  const owner = await connectOwner(stage, url);
  const size = await owner.query<{ bytes: string }>(
    "select pg_database_size(current_database()) as bytes",
  );
  const projects = projectsOf(options);
  const rowsOfProject = Math.floor(options.rows / options.projects);
  const pages = await measurePages({ db, projects, rowsOfProject, pagesOfKind });
  print("measured pages");
  const files = await exportAll(
    { db, projects: projects.slice(0, exportsMax), folder: stage.folder },
    print,
  );
  const verifications: Rate[] = [];
  for (const { file, rate } of files) verifications.push(await verifyFile(file, rate));
  print("verified exports");
  const lazy = new Secret(
    `${url.reveal()}&options=${encodeURIComponent("-c synchronous_commit=off")}`,
  );
  const lazyDb = await openDatabase({
    clock: systemClock,
    url: lazy,
    connections: 1,
    log: silentLog,
  });
  stage.onClose(() => lazyDb.destroy());
  const changes = await measureChanges({
    db: lazyDb,
    owner,
    projectId: projectOf(0),
    rounds: options.rounds,
  });
  const exports = files.map(({ rate }) => rate);
  return { databaseBytes: Number(size.rows[0]?.bytes), pages, exports, verifications, changes };
}

function projectsOf(options: AuditBenchOptions): ProjectId[] {
  return Array.from({ length: options.projects }, (_, index) => projectOf(index));
}

function projectOf(index: number): ProjectId {
  return `p-${(index + 1).toString(16).padStart(8, "0")}` as ProjectId;
}

async function connectOwner(stage: Stage, url: Secret): Promise<Client> {
  const client = new Client({ connectionString: url.reveal() });
  await client.connect();
  stage.onClose(() => client.end());
  return client;
}

async function fill({ stage, url, ...options }: Filled, print: Print): Promise<void> {
  const { rows } = options;
  const projects = projectsOf(options);
  const db = await openDatabase({ clock: systemClock, url, connections: fillers, log: silentLog });
  stage.onClose(() => db.destroy());
  const owner = await connectOwner(stage, url);
  const definitions = await prepareFill(owner, { projects, rows });
  const chain = chainOn(db, signer);
  const fillOne = async (filler: number): Promise<void> => {
    const own = projects.filter((_, index) => index % fillers === filler);
    const client = await connectOwner(stage, url);
    const ownRows = Math.floor((rows * own.length) / projects.length);
    await fillProjects(client, { projects: own, rows: ownRows }, async () => {
      for (const project of own) await chain.checkpoint(project);
    });
  };
  await Promise.all(Array.from({ length: fillers }, (_, filler) => fillOne(filler)));
  print("wrote all entries; making the indexes");
  await finishFill(owner, definitions);
}

type Exported = { readonly file: string; readonly rate: Rate };

async function exportAll(
  {
    db,
    projects,
    folder,
  }: { readonly db: Db; readonly projects: readonly ProjectId[]; readonly folder: string },
  print: Print,
): Promise<Exported[]> {
  const exporter = new AuditExport({
    db,
    clock: systemClock,
    chain: chainOn(db, signer),
    retentionOf: () => 3_650,
  });
  const exported: Exported[] = [];
  for (const projectId of projects) {
    const file = join(folder, `${projectId}.ndjson`);
    const began = performance.now();
    const parts = await exporter.begin(wholeLog(projectId), { actor: platformActor });
    await pipeline(Readable.from(parts), createWriteStream(file));
    const seconds = (performance.now() - began) / 1000;
    const { entries } = await db
      .selectFrom("audit_links")
      .select((count) => count.fn.countAll<number>().as("entries"))
      .where("chain", "=", projectId)
      .executeTakeFirstOrThrow();
    exported.push({ file, rate: { entries, bytes: statSync(file).size, seconds } });
    print(`exported ${projectId} in ${seconds.toFixed(1)} s`);
  }
  return exported;
}

async function verifyFile(file: string, { entries, bytes }: Rate): Promise<Rate> {
  const began = performance.now();
  const verdict = await verifyExport(
    createReadStream(file, { highWaterMark: 1 << 20 }),
    signer.publicKeys,
  );
  if (verdict.result !== "intact") throw new Error(`an export is not intact: ${verdict.message}`);
  return { entries, bytes, seconds: (performance.now() - began) / 1000 };
}
