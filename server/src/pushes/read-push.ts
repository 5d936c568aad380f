// Reads a request to a hook address: which kind of host sent it, whether it knows the secret, and which refs it moves.
import { createHash } from "node:crypto";
import { bitbucket } from "./hosts/bitbucket.ts";
import { gitlab } from "./hosts/gitlab.ts";
import { gitea, github } from "./hosts/hub.ts";
import type { GitHost, Headers, RefUpdate, SignedMessage } from "./push.ts";

/** Gitea also sends the fields of GitHub. */
const hosts: readonly GitHost[] = [gitea, gitlab, bitbucket, github];

/** The names that hosts and people choose are shown in lists. */
const nameLengthMax = 200;

/** An event of a host, before its signature is checked. */
export type HookEvent = { readonly host: GitHost; readonly event: string; readonly deliveryKey: string };

/** The event that the headers announce; null when no known kind of host sends such headers. */
export function eventOf(headers: Headers, body: Buffer): HookEvent | null {
  for (const host of hosts) {
    const event = host.event(headers)?.slice(0, nameLengthMax);
    if (event === undefined) continue;
    const own = host.deliveryKey(headers)?.slice(0, nameLengthMax);
    return { host, event, deliveryKey: own ?? createHash("sha256").update(body).digest("hex") };
  }
  return null;
}

/** The refs that a signed event moves, or a sentence that says why it cannot be used. */
export type PushReading =
  | { readonly ok: true; readonly updates: readonly RefUpdate[] }
  | { readonly ok: false; readonly isSigned: boolean; readonly reason: string };

/** Checks the signature before it reads the body. */
export function readPush({ host, event }: HookEvent, message: SignedMessage): PushReading {
  if (!host.isSigned(message)) {
    return {
      ok: false,
      isSigned: false,
      reason: "the signature is missing, or was not made with the secret of this address",
    };
  }
  try {
    return { ok: true, updates: host.updates(event, jsonOf(message)) };
  } catch (error) {
    // Whatever a stranger's JSON makes of the schemas is a body of another form.
    const why = error instanceof SyntaxError ? "is not JSON" : `is not what ${host.kind} sends for ${event}`;
    return { ok: false, isSigned: true, reason: `the body ${why}` };
  }
}

/** GitHub and Gitea can also send a form with the JSON in one field. */
function jsonOf({ headers, body }: SignedMessage): unknown {
  const isForm = String(headers["content-type"]).startsWith("application/x-www-form-urlencoded");
  const text = body.toString("utf8");
  return JSON.parse(isForm ? (new URLSearchParams(text).get("payload") ?? "") : text);
}
