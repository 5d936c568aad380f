// Finds symbolic links where the platform has files and folders of its own. It makes no links
// there: a backup would have the link without the files, and a platform that was restored from a
// forged backup would read and write wherever the link leads.
import { existsSync, lstatSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { keptFiles } from "./backup-content.ts";

/** Folders below the kept ones in which the platform makes folders too: the apps' own storage. */
const innerFolders: readonly string[] = ["storage/.apps"];

/**
 * The paths of all links, relative to the data folder: first those among `keptFiles`, then those
 * right below. Deeper files are those of apps and builds, which may have links.
 */
export function ownLinks(dataDir: string): readonly string[] {
  const isLink = (name: string): boolean =>
    lstatSync(join(dataDir, name), { throwIfNoEntry: false })?.isSymbolicLink() === true;
  const isFolder = (name: string): boolean =>
    existsSync(join(dataDir, name)) && statSync(join(dataDir, name)).isDirectory();
  const inner = [...keptFiles, ...innerFolders]
    .filter(isFolder)
    .flatMap((folder) => readdirSync(join(dataDir, folder)).map((name) => join(folder, name)));
  return [...keptFiles, ...inner].filter(isLink);
}
