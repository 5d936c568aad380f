// The file that `slipway link` writes into an app's folder: project and app that commands there mean. It has no secrets.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Refused } from "./refused.ts";

/** What a folder is linked to. */
export type Link = {
  /** The project's id. */
  readonly project: string;
  readonly app: string;
};

/** The path of the file; its folder is never deployed. */
export function linkFile(folder: string): string {
  return join(folder, ".slipway", "link.json");
}

/** Null: the folder is not linked. Throws `Refused` for a file that is not ours. */
export function readLink(folder: string): Link | null {
  const file = linkFile(folder);
  if (!existsSync(file)) return null;
  try {
    const { project, app } = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
    if (typeof project === "string" && typeof app === "string") return { project, app };
  } catch (error) {
    throw notOurs(file, error);
  }
  throw notOurs(file);
}

/** Replaces the link; git ignores the file, because projects have other ids at other platforms. */
export function writeLink(folder: string, link: Link): void {
  const file = linkFile(folder);
  mkdirSync(join(folder, ".slipway"), { recursive: true });
  writeFileSync(file, `${JSON.stringify(link, null, 2)}\n`);
  const ignored = join(folder, ".slipway", ".gitignore");
  if (!existsSync(ignored)) writeFileSync(ignored, "*\n");
}

function notOurs(file: string, cause?: unknown): Refused {
  return new Refused(`${file} was not written by slipway link. Delete it, then link again: slipway link <app>`, {
    cause,
  });
}
