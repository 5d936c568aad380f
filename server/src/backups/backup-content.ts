// What a backup holds, part by part, in this order: `manifest.json`, the tables below `database/`,
// the secret keys, and a tar of the files of the data folder.
import { z } from "zod";
import { CannotStart } from "#lib/cannot-start.ts";
import type { CopiedDatabase } from "#store/database-copy.ts";
import type { Part } from "./archive.ts";

/** The names of the parts. The part of a table has the table's name after `tables`. */
export const partNames = {
  manifest: "manifest.json",
  tables: "database/",
  secretKey: "secret.key",
  files: "files.tar",
} as const;

/**
 * What a backup takes of the data folder, beside the database and the secret key. The rest is made
 * again at the next start.
 */
export const keptFiles: readonly string[] = [
  "bootstrap.json",
  "builds",
  "containers",
  "docker.key",
  "driver",
  "ended-replicas",
  "instance.id",
  "storage",
  "uploads",
];

/** The number of the form that is described here. A later form gets another number. */
export const contentForm = 1;

const manifestShape = z.object({
  form: z.literal(contentForm),
  version: z.string(),
  at: z.iso.datetime(),
  database: z.object({
    migrations: z.array(z.object({ name: z.string(), checksum: z.string() })),
    tables: z.array(
      z.object({
        name: z.string(),
        columns: z.array(z.string()),
        numbered: z.array(z.object({ column: z.string(), last: z.string().nullable() })),
      }),
    ),
  }),
});

/** The content of the first part, which describes the other parts. */
export type Manifest = {
  readonly form: typeof contentForm;
  /** The version of the platform that made the backup. */
  readonly version: string;
  /** The time right before the snapshot of the database, as ISO text. */
  readonly at: string;
  readonly database: CopiedDatabase;
};

/** The manifest as a part. */
export async function* manifestContent(manifest: Manifest): AsyncGenerator<Buffer> {
  yield Buffer.from(JSON.stringify(manifest));
}

/** The maximum length of a manifest, which is enough for a database of 100,000 columns. */
const manifestBytesMax = 16_777_216;

/** Reads the first part. Throws `CannotStart` when it is no manifest that this version knows. */
export async function readManifest(first: Part): Promise<Manifest> {
  const isManifest = first.name === partNames.manifest;
  // Null is no manifest, so it is refused below.
  const found = manifestShape.safeParse(
    isManifest ? parsed(await readShortPart(first, manifestBytesMax)) : null,
  );
  if (found.success) return found.data;
  throw new CannotStart(
    "This backup has a form that this version does not know. Restore it with the version of Slipway that made it, or a newer one.",
    { cause: found.error },
  );
}

/** The value of a JSON text; null: the text is no JSON. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Reads a part. Throws `CannotStart` when it is longer than a platform writes such a part. */
export async function readShortPart({ name, content }: Part, bytesMax: number): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of content) {
    length += chunk.length;
    if (length > bytesMax)
      throw new CannotStart(`${notOurs} Its part ${name} is longer than ${bytesMax} bytes.`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/** The beginning of a message about a backup that somebody has made up or changed. */
export const notOurs = "No platform has written this backup: do not restore it.";
