// The link by which an app's folder is found in itself, for the builders.
import { symlink } from "node:fs/promises";
import { join } from "node:path";

/**
 * Adds `app` as a link to the folder itself, unless it has an `app` of its own: some apps start
 * `app/main.py`.
 */
export async function addSelfLink(folder: string): Promise<void> {
  await symlink(".", join(folder, "app")).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
}
