// The app and the project that commands mean where none is named: those that the working folder is
// linked to, else the app in its TOML file.
import { readAppFolder } from "./app-folder.ts";
import type { Given } from "./command.ts";
import { projectOf, type Connection } from "./connection.ts";
import { readLink } from "./link-file.ts";
import type { Machine } from "./machine.ts";

/** What a folder says. */
export type FolderApp = {
  /** Null: neither a link nor a TOML file names one. */
  readonly app: string | null;
  /** The id of the linked project; null: the selected project counts. */
  readonly project: string | null;
};

/** Reads the app of the folder at `path`. Throws `Refused` when its files cannot be read. */
export function appOfFolder(path: string): FolderApp {
  const folder = readAppFolder(path);
  const link = readLink(folder.path);
  return { app: link?.app ?? folder.name, project: link?.project ?? null };
}

/** The project that was chosen, else that of the link, else the selected one. */
export async function projectWith(
  { project }: FolderApp,
  {
    connection,
    given,
    machine,
  }: { readonly connection: Connection; readonly given: Given; readonly machine: Machine },
): Promise<string> {
  const isChosen = given.has("project") || (machine.environment["SLIPWAY_PROJECT"] ?? "") !== "";
  return project !== null && !isChosen ? project : await projectOf(connection, given, machine);
}
