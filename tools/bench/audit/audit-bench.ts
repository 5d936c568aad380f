// An audit log with millions of entries on a database of its own, with the platform's code: pages,
// export, verification, and the cost of an entry per change.
import { createReadStream, createWriteStream, statSync } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { platformActor } from "@slipway/server/src/audit/record.ts";
import { AuditExport } from "@slipway/server/src/audit/export/audit-export.ts";
import { verifyExport } from "@slipway/cli/src/verify/verify-export.ts";
import { systemClock } from "@slipway/server/src/lib/clock.ts";
import type { ProjectId } from "@slipway/server/src/lib/ids.ts";
import { silentLog } from "@slipway/server/src/lib/log.ts";
import { Secret } from "@slipway/server/src/lib/secret.ts";
import type { Db } from "@slipway/server/src/store/database.ts";
import { migrate } from "@slipway/server/src/store/migrate.ts";
import { chainOn, testSigner, wholeLog } from "@slipway/server/test/support/audit-chain.ts";
import { temporaryFolder } from "@slipway/server/test/support/folder.ts";
import type { Benchmark } from "#bench/harness/benchmark.ts";
import type { Context } from "#bench/harness/context.ts";
import {
  connectTo,
  openPlatformDatabase,
  startDatabaseServer,
} from "#bench/harness/database-server.ts";
import { auditTables, type Rate } from "./audit-report.ts";
import { measureChanges } from "./change-cost.ts";
import { fillProjects, finishFill, prepareFill } from "./fill.ts";
import { measurePages } from "./pages.ts";

type AuditOptions = { readonly rows: number; readonly projects: number; readonly rounds: number };

const pagesOfKind = 1_000;
const exportsMax = 3;
const fillers = 2;
/**
 * The signer's id is new in each process, so that checkpoints of another process are not mistaken
 * for its own.
 */
const signer = testSigner(`bench-${process.pid}`);

/** `audit` */
export const audit: Benchmark<AuditOptions> = {
  name: "audit",
  measures: "An audit log of ten million entries",
  heading: "Audit log",
  options: { rows: 10_000_000, projects: 50, rounds: 7 },
  async run({ rows, projects: projectCount, rounds }, context) {
    const { t, print } = context;
    const server = await startDatabaseServer(t);
    const url = await server.database("audit");
    await migrate({ url: new Secret(url), log: silentLog });
    const projects = Array.from({ length: projectCount }, (_, index) => projectOf(index));
    const began = performance.now();
    await fill({ url, projects, rows }, context);
    const fillSeconds = (performance.now() - began) / 1000;
    print(`filled ${rows} entries in ${fillSeconds.toFixed(0)} s`);

    const db = await openPlatformDatabase(t, url, 4);
    const owner = await connectTo(t, url);
    const size = await owner.query<{ bytes: string }>(
      "select pg_database_size(current_database()) as bytes",
    );
    const rowsOfProject = Math.floor(rows / projectCount);
    const pages = await measurePages({ db, projects, rowsOfProject, pagesOfKind });
    print("measured pages");
    const files = await exportAll(db, projects.slice(0, exportsMax), context);
    const verifications: Rate[] = [];
    for (const { file, rate } of files) verifications.push(await verifyFile(file, rate));
    print("verified exports");
    const withoutSync = `${url}&options=${encodeURIComponent("-c synchronous_commit=off")}`;
    const changes = await measureChanges({
      db: await openPlatformDatabase(t, withoutSync, 1),
      owner,
      projectId: projectOf(0),
      rounds,
      print,
    });
    const gigabytes = (Number(size.rows[0]?.bytes) / 1e9).toFixed(1);
    return {
      conditions: `${rows.toLocaleString("en")} entries of ${projectCount} projects, ${gigabytes} GB with indexes and chains, filled in ${fillSeconds.toFixed(0)} s.`,
      body: auditTables({
        pages,
        exports: files.map(({ rate }) => rate),
        verifications,
        changes,
      }),
    };
  },
};

function projectOf(index: number): ProjectId {
  return `p-${(index + 1).toString(16).padStart(8, "0")}` as ProjectId;
}

type Filling = {
  readonly url: string;
  readonly projects: readonly ProjectId[];
  readonly rows: number;
};

async function fill({ url, projects, rows }: Filling, { t, print }: Context): Promise<void> {
  const owner = await connectTo(t, url);
  const definitions = await prepareFill(owner, { projects, rows });
  const chain = chainOn(await openPlatformDatabase(t, url, fillers), signer);
  const fillOne = async (filler: number): Promise<void> => {
    const own = projects.filter((_, index) => index % fillers === filler);
    const client = await connectTo(t, url);
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
  db: Db,
  projects: readonly ProjectId[],
  { t, print }: Context,
): Promise<Exported[]> {
  const folder = temporaryFolder(t, "exports");
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
