// Adds a link to an app's folder that leads to the folder itself, for the builders.
import { symlink } from "node:fs/promises";
import { join } from "node:path";

/**
 * Adds `app` as a link to the folder itself, unless the folder has an `app` already: some apps
 * start `app/main.py`.
 */
export async function addSelfLink(folder: string): Promise<void> {
  await symlink(".", join(folder, "app")).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
}
