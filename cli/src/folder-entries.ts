// Looks at folders for the commands that walk them: what is gone meanwhile counts as never there,
// and what cannot be read is a refusal that names it.
import type { Dirent, Stats } from "node:fs";
import { readdir, stat } from "node:fs/promises";
import { Refused } from "./refused.ts";

/** What is in a folder, by name. Empty: the folder is gone. `shown` names it in a refusal. */
export async function entriesOf(folder: string, shown: string): Promise<Dirent[]> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    return entries.toSorted((one, other) => (one.name < other.name ? -1 : 1));
  } catch (error) {
    if (isGone(error)) return [];
    throw unreadable(shown, error);
  }
}

/** What is there; null: it is gone. `shown` names it in a refusal. */
export async function statsOf(path: string, shown: string): Promise<Stats | null> {
  try {
    return await stat(path);
  } catch (error) {
    if (isGone(error)) return null;
    throw unreadable(shown, error);
  }
}

/** True when the error says that there is no such file, or no longer. */
export function isGone(error: unknown): boolean {
  return (
    error instanceof Error &&
    "code" in error &&
    (error.code === "ENOENT" || error.code === "ENOTDIR")
  );
}

/**
 * True for a name whose bytes are not UTF-8: Node.js reads it as another one, which no file has.
 */
export function isMisnamed(name: string): boolean {
  return name.includes("\ufffd");
}

/** The refusal of a name whose bytes are not UTF-8. */
export function misnamed(path: string): Refused {
  return new Refused(
    `${JSON.stringify(path)} has a name that is not UTF-8. Rename it, or leave it out.`,
  );
}

/** The refusal of what cannot be read. */
export function unreadable(shown: string, error: unknown): Refused {
  return new Refused(`${shown} cannot be read: ${whyUnreadable(error)}.`, { cause: error });
}

function whyUnreadable(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = "code" in error ? error.code : undefined;
  return code === "EACCES" || code === "EPERM" ? "you have no permission" : error.message;
}
