// The first start on an empty database: creates an owner, a project, a signing key and tokens, and
// lists them in `bootstrap.json`. The file is written under a temporary name before the commit and
// renamed after it, so a crash in between loses no token: the next start finds the pending file and
// keeps it only if the transaction was committed.
import { randomBytes } from "node:crypto";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { CannotStart } from "#lib/cannot-start.ts";
import type { ProjectId } from "#lib/ids.ts";
import { Secret } from "#lib/secret.ts";
import { renameSafely, writeFileSafely } from "#lib/write-file.ts";
import type { Urls } from "#api/urls.ts";
import { hasProjects, lockBootstrap } from "#accounts/project-store.ts";
import { findProject, createPerson, createProject } from "#accounts/projects.ts";
import type { SigningKeys } from "#accounts/keys.ts";
import { issueToken, type TokenWish } from "#accounts/tokens.ts";
import { platformActor, record, type By } from "#audit/record.ts";
import type { Db, Tx } from "#store/database.ts";
import type { Foundation } from "#store/foundation.ts";

/** The content of `bootstrap.json`; scripts outside the platform read it. */
export type BootstrapFile = Omit<Urls, "appHosts"> & {
  /** The URL of the platform on its own machine, where `baseUrl` may not be reachable. */
  readonly localUrl: string;
  readonly projectId: string;
  readonly ownerEmail: string;
  readonly ownerPassword: string;
  readonly serviceAccountToken: string;
  readonly inferenceToken: string;
  readonly operatorToken: string;
};

export type BootstrapOptions = Pick<Foundation, "db" | "clock" | "log"> & {
  readonly keys: SigningKeys;
  /** Path of `bootstrap.json`. */
  readonly file: string;
  /** Base URL of the platform, without a trailing slash. */
  readonly baseUrl: string;
  /** The URL of the platform on its own machine. */
  readonly localUrl: string;
};

const ownerEmail = "owner@localhost";
const by: By = { actor: platformActor };

/**
 * Creates the first project if there is none, and loads the signing keys. Writes the current URLs
 * to an existing file.
 */
export async function bootstrap(options: BootstrapOptions): Promise<void> {
  const { db, keys, file, log } = options;
  const pendingFile = `${file}.pending`;
  await settlePending(db, { file, pendingFile });
  const isFirst = await db.transaction().execute(async (tx) => {
    await lockBootstrap(tx);
    if (await hasProjects(tx)) return false;
    const content = await createFirstProject(tx, options);
    writeFileSafely(pendingFile, format(content));
    return true;
  });
  if (isFirst) {
    keepOldFile(file);
    renameSafely(pendingFile, file);
    log.info({ file }, "created the first project; the file has its tokens");
  } else {
    updateUrls(file, options);
  }
  await keys.load(db);
}

async function createFirstProject(tx: Tx, options: BootstrapOptions): Promise<BootstrapFile> {
  const password = new Secret(randomBytes(18).toString("base64url"));
  const ownerId = await createPerson(tx, { email: ownerEmail, name: "Owner", password });
  const key = await options.keys.rotate(tx, by);
  const projectId = await createProject(tx, { name: "default", ownerId, by });
  const issue = async (wish: TokenWish, name: string): Promise<string> => {
    const { token } = await issueToken(tx, { wish, name, key, nowMs: options.clock.now(), by });
    return token.reveal();
  };
  const content = {
    ...urls(options),
    projectId,
    ownerEmail,
    ownerPassword: password.reveal(),
    serviceAccountToken: await issue(
      { kind: "service_account", projectId, role: "owner", expiresAt: null },
      "bootstrap",
    ),
    inferenceToken: await issue({ kind: "inference", projectId, isReadable: true }, "bootstrap"),
    operatorToken: await issue({ kind: "operator", expiresAt: null }, "bootstrap"),
  };
  await record(tx, {
    projectId,
    action: "platform.bootstrap",
    by,
    resource: { type: "project", id: projectId },
  });
  return content;
}

/** Keeps the pending file of an interrupted start if its project exists; otherwise deletes it. */
async function settlePending(db: Db, files: { file: string; pendingFile: string }): Promise<void> {
  const content = readFile(files.pendingFile);
  if (content === null) return;
  if ((await findProject(db, content.projectId as ProjectId)) === null) {
    rmSync(files.pendingFile);
    return;
  }
  keepOldFile(files.file);
  renameSafely(files.pendingFile, files.file);
}

/** Renames a file that belongs to another database: no other file has its tokens. */
function keepOldFile(file: string): void {
  const old = readFile(file);
  // The id comes from a file, so characters that no id has are removed.
  if (old !== null)
    renameSafely(
      file,
      join(dirname(file), `bootstrap.${old.projectId.replaceAll(/[^\w-]/g, "")}.json`),
    );
}

function updateUrls(file: string, options: Pick<BootstrapOptions, "baseUrl" | "localUrl">): void {
  const content = readFile(file);
  if (content === null) return;
  const updated = { ...content, ...urls(options) };
  if (format(updated) !== format(content)) writeFileSafely(file, format(updated));
}

type FileUrls = Pick<BootstrapFile, "baseUrl" | "apiUrl" | "dashboardUrl" | "localUrl">;

function urls({ baseUrl, localUrl }: Pick<BootstrapOptions, "baseUrl" | "localUrl">): FileUrls {
  return { baseUrl, apiUrl: baseUrl, dashboardUrl: `${baseUrl}/dashboard`, localUrl };
}

function format(content: BootstrapFile): string {
  return `${JSON.stringify(content, null, 2)}\n`;
}

function readFile(path: string): BootstrapFile | null {
  if (!existsSync(path)) return null;
  try {
    const content: unknown = JSON.parse(readFileSync(path, "utf8"));
    if (typeof content === "object" && content !== null && "projectId" in content)
      return content as BootstrapFile;
  } catch (error) {
    throw new CannotStart(`${path} cannot be read as JSON; move it away to start without it.`, {
      cause: error,
    });
  }
  throw new CannotStart(
    `${path} was not written by the platform; move it away to start without it.`,
  );
}
