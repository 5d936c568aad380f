// The file that `slipway link` writes into an app's folder: project and app that commands there
// mean. It has no secrets.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { plain } from "./plain-text.ts";
import { misuse, Refused } from "./refused.ts";

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
  let found: Link | undefined;
  try {
    const { project, app } = JSON.parse(readFileSync(file, "utf8")) as Record<string, unknown>;
    if (typeof project === "string" && typeof app === "string") found = { project, app };
  } catch (error) {
    throw notOurs(file, error);
  }
  if (found === undefined) throw notOurs(file);
  for (const [field, text] of Object.entries(found)) {
    if (!isName(text))
      throw new Refused(
        `${field} in ${file} is ${refusalOf(text)}. Delete the file, then link again: slipway link <app>`,
      );
  }
  return found;
}

/** Throws `Refused` for what cannot be the name or the id of an app. */
export function checkApp(app: string): void {
  if (!isName(app)) throw misuse(`app is ${refusalOf(app)}.`);
}

/** Nothing else may stand for it in an address: no other place of the platform is meant. */
function isName(text: string): boolean {
  return text !== "" && text !== "." && text !== ".." && !/[/\\]/.test(text);
}

function refusalOf(text: string): string {
  return `${JSON.stringify(plain(text))}, which is no name or id: it must not be empty, . or .., and has no slashes`;
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
  return new Refused(
    `${file} was not written by slipway link. Delete it, then link again: slipway link <app>`,
    {
      cause,
    },
  );
}
