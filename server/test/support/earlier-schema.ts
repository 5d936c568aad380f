// A database as an earlier version made it, for tests of upgrades.
import { readdirSync } from "node:fs";
import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { silentLog } from "#lib/log.ts";
import { ownFiles } from "#lib/own-files.ts";
import type { Secret } from "#lib/secret.ts";
import { migrate } from "#store/migrate.ts";
import type { WithAfter } from "./clean-last.ts";
import { temporaryFolder } from "./folder.ts";

/** Applies the migrations that come before the one whose name begins with `number`. */
export async function migrateBefore(t: WithAfter, number: string, url: Secret): Promise<void> {
  const folder = temporaryFolder(t);
  const files = readdirSync(ownFiles.migrations).filter((name) => name < number);
  for (const name of files) await copyFile(join(ownFiles.migrations, name), join(folder, name));
  await migrate({ url, log: silentLog, folder });
}
