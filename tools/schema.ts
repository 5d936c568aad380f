// Writes the result of the migrations on an empty database: store/schema.sql for review,
// store/tables.ts for the type check. `--check` (in `npm run check`) compares the committed files
// with it, `--write` writes them.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import { startTestServer } from "@slipway/server/test/support/test-server.ts";
import { readCatalog } from "./schema-catalog.ts";
import { schemaSql } from "./schema-sql.ts";
import { tableTypes } from "./schema-types.ts";

const storeFolder = join(import.meta.dirname, "../server/src/store");

async function generate(): Promise<Record<string, string>> {
  const server = await startTestServer();
  const client = new Client({ connectionString: server.url });
  try {
    await client.connect();
    const catalog = await readCatalog(client);
    return { "schema.sql": schemaSql(catalog), "tables.ts": tableTypes(catalog) };
  } finally {
    await client.end();
    await server.stop();
  }
}

/** The first line in which two texts differ, for the message. */
function firstDifference(committed: string, generated: string): string | null {
  if (committed === generated) return null;
  const before = committed.split("\n");
  const after = generated.split("\n");
  const line = after.findIndex((text, index) => text !== before[index]);
  const at = line === -1 ? after.length : line;
  return `line ${at + 1}\n  committed: ${before[at] ?? "(end)"}\n  migrations: ${after[at] ?? "(end)"}`;
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return "";
    throw error;
  }
}

const mode = process.argv[2];
if (mode !== "--check" && mode !== "--write") {
  console.error("Say --check or --write.");
  process.exit(2);
}
for (const [name, text] of Object.entries(await generate())) {
  const path = join(storeFolder, name);
  if (mode === "--write") {
    writeFileSync(path, text);
    continue;
  }
  const difference = firstDifference(readIfThere(path), text);
  if (difference === null) continue;
  console.error(`server/src/store/${name} is not what the migrations make, ${difference}`);
  console.error("Run `node tools/schema.ts --write` and commit the files.");
  process.exitCode = 1;
}
