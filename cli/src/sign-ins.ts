// The file that stores this person's sign-ins: ~/.slipway/config.json. It contains tokens, so only
// its owner may read it. It is replaced atomically, so that a crash leaves either the old file or
// the new one.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { errorMessage } from "./error-message.ts";
import type { Machine } from "./machine.ts";
import { Refused } from "./refused.ts";
import { replaceFile } from "./replace-file.ts";

/** A sign-in at one platform. */
export type SignIn = {
  readonly accessToken: string;
  /** Empty: the access token is a service account's, which nobody renews. */
  readonly refreshToken: string;
  /** The person's, or what the service account is called. */
  readonly email: string;
  /** The id of the project that commands use by default. */
  readonly project: string | null;
};

/**
 * The content of the file: the most recent platform, and the sign-ins by URL. A token is sent to
 * its own URL only.
 */
export type SignIns = {
  readonly current: string | null;
  readonly platforms: Readonly<Record<string, SignIn>>;
};

const none: SignIns = { current: null, platforms: {} };

/** True for a stored token of a service account, which has no session and no person. */
export function isOfServiceAccount({ refreshToken }: SignIn): boolean {
  return refreshToken === "";
}

/** The path of the file. */
export function signInFile(machine: Pick<Machine, "homeFolder">): string {
  return join(machine.homeFolder, ".slipway", "config.json");
}

/**
 * The content of the file; empty when it does not exist. Throws `Refused` for a file that is not
 * ours.
 */
export function readSignIns(machine: Pick<Machine, "homeFolder">): SignIns {
  const file = signInFile(machine);
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (isMissing(error)) return none;
    throw new Refused(`${file} cannot be read: ${errorMessage(error)}.`, { cause: error });
  }
  const found = parse(text);
  if (found === null) {
    throw new Refused(
      `${file} was not written by slipway login. Delete it, then sign in again: slipway login`,
    );
  }
  return found;
}

/**
 * Replaces the sign-in at `url` and makes it the current one. Null removes it: if it was the
 * current one, none is, so that no command acts on another platform unasked.
 */
export function writeSignIn(
  machine: Pick<Machine, "homeFolder">,
  url: string,
  signIn: SignIn | null,
): void {
  const before = readSignIns(machine);
  const others = Object.entries(before.platforms).filter(([key]) => key !== url);
  const platforms = Object.fromEntries(signIn === null ? others : [...others, [url, signIn]]);
  const currentLeft = before.current === url ? null : before.current;
  const current = signIn === null ? currentLeft : url;
  write(signInFile(machine), { current, platforms });
}

/**
 * Replaces the sign-in at `url` after its access token was renewed, without making it the current
 * one.
 */
export function renewSignIn(
  machine: Pick<Machine, "homeFolder">,
  url: string,
  signIn: SignIn,
): void {
  const before = readSignIns(machine);
  // The person may have signed out in the meantime.
  if (before.platforms[url]?.refreshToken !== signIn.refreshToken) return;
  write(signInFile(machine), { ...before, platforms: { ...before.platforms, [url]: signIn } });
}

function write(file: string, content: SignIns): void {
  replaceFile(file, `${JSON.stringify(content, null, 2)}\n`, 0o600);
}

function parse(text: string): SignIns | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Edited by hand and invalid: the caller reports it.
    return null;
  }
  if (!isRecord(value) || !isRecord(value["platforms"])) return null;
  const { current, platforms } = value;
  if (current !== null && typeof current !== "string") return null;
  const read: Record<string, SignIn> = {};
  for (const [url, one] of Object.entries(platforms)) {
    if (!isSignIn(one)) return null;
    read[url] = one;
  }
  return { current, platforms: read };
}

function isSignIn(value: unknown): value is SignIn {
  if (!isRecord(value)) return false;
  const { accessToken, refreshToken, email, project } = value;
  const isProject = project === null || typeof project === "string";
  return [accessToken, refreshToken, email].every((one) => typeof one === "string") && isProject;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}
