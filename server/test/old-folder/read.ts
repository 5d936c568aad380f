// Reads a data folder that nobody works in: its rows as lines of text, its small files as JSON.
// What `load.ts` takes.
import { lstatSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { dirname, join } from "node:path";
import { Client } from "pg";
import { systemClock } from "#lib/clock.ts";
import { silentLog } from "#lib/log.ts";
import { startEmbedded } from "#store/postgres/embedded.ts";
import { lockFolder } from "#store/folder-lock.ts";

/** In place of the data folder's path. */
export const folderMark = "@data-folder@";

/**
 * By path in the folder. `user`: the one that apps of a project run as; left out for the platform's
 * own.
 */
export type KeptFile = {
  readonly mode: string;
  readonly user?: number;
  readonly text?: string;
  readonly link?: string;
};

/** In place of the platform's own URL. */
const urlMark = "@base-url@";

/** In place of the path of the folder that Python's programs are in. */
export const pythonMark = "@python@";

/**
 * The database; what the platform holds while it runs, and the reserve; replicas, which are gone;
 * what is made anew where it is missing; what nobody starts.
 */
const leftOut =
  /^(postgres|replicas|sockets|slipway\.(lock|pid)\S*|.*reserve.*|.*__pycache__|builds\/cache\/tools|.*\/bin\/[Aa]ctivate\S*)(\/|$)/;

/** Files, links and folders below it, parents first. */
export function readFolder(folder: string): Record<string, KeptFile> {
  const found: Record<string, KeptFile> = {};
  for (const path of pathsBelow(folder)) {
    const place = join(folder, path);
    const { mode, uid } = lstatSync(place);
    const shared = {
      mode: (mode & 0o7777).toString(8),
      ...(uid === process.getuid?.() ? {} : { user: uid }),
    };
    const kind = mode & 0o170000;
    if (kind === 0o120000)
      found[path] = { ...shared, link: marked(readlinkSync(place), { dataDir: folder }) };
    else if (kind === 0o100000)
      found[path] = { ...shared, text: marked(readFileSync(place, "utf8"), { dataDir: folder }) };
    else if (kind === 0o040000) found[path] = shared;
  }
  const python = Object.values(found).find(({ link }) => link?.startsWith("/"))?.link;
  return JSON.parse(
    JSON.stringify(found).replaceAll(dirname(python ?? "/none/of/them"), pythonMark),
  );
}

/** A link to a folder is not one. */
function pathsBelow(folder: string, path = ""): string[] {
  const entries = readdirSync(join(folder, path), { withFileTypes: true });
  return entries
    .filter(({ name }) => !leftOut.test(join(path, name)))
    .toSorted((one, other) => (one.name < other.name ? -1 : 1))
    .flatMap((entry) => {
      const inner = join(path, entry.name);
      return entry.isDirectory() ? [inner, ...pathsBelow(folder, inner)] : [inner];
    });
}

/**
 * All rows of the embedded database, a line each: the table, a space, the row as JSON. Then lines
 * of sequences.
 */
export async function readDatabase(folder: string): Promise<string> {
  const lock = lockFolder(join(folder, "slipway.lock"));
  const server = await startEmbedded({
    clock: systemClock,
    folder: join(folder, "postgres"),
    lock,
    connections: 10,
    log: silentLog,
  });
  const client = new Client({ connectionString: server.url.reveal() });
  await client.connect();
  try {
    const lines: string[] = [];
    const tables = await client.query<{ name: string }>(
      "select relname as name from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace order by 1",
    );
    for (const { name } of tables.rows) {
      const { rows } = await client.query<{ row: string }>(
        `select to_json(one)::text as row from ${name} as one order by ctid`,
      );
      lines.push(...rows.map(({ row }) => `${name} ${marked(row, { dataDir: folder })}`));
    }
    const sequences = await client.query<{ name: string; value: string }>(
      "select sequencename as name, last_value::text as value from pg_sequences where last_value is not null order by 1",
    );
    lines.push(...sequences.rows.map(({ name, value }) => `#${name} ${value}`));
    return `${lines.join("\n")}\n`;
  } finally {
    await client.end();
    await server.stop();
    lock.release();
  }
}

/** The text with marks in place of what is another on each platform. */
export function marked(
  text: string,
  { dataDir, baseUrl }: { readonly dataDir: string; readonly baseUrl?: string },
): string {
  const ofFolder = text.replaceAll(dataDir, folderMark);
  return baseUrl === undefined ? ofFolder : ofFolder.replaceAll(baseUrl, urlMark);
}
