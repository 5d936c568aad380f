// Reads a request to a hook address: which kind of host sent it, whether it knows the secret, and
// which refs it moves.
import { createHash, createHmac } from "node:crypto";
import { isSameText } from "#lib/same-text.ts";
import type { GitHostKind } from "@slipway/contract/words.ts";
import { readWebhookSecret, standardSignature } from "#lib/webhook-signature.ts";
import { commitText } from "#deploy/source.ts";
import { isTooDeep, jsonTooDeep } from "#lib/json-depth.ts";
import { readOneRef, readSeveralRefs, repositoryIn, type RefUpdate } from "./push-bodies.ts";

/** Header fields by lower-case name, as Node gives them. */
export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/** `body` is exactly what was received. */
export type SignedMessage = {
  readonly headers: Headers;
  readonly body: Buffer;
  readonly secret: string;
  /** The time, for signatures that contain one. */
  readonly nowMs: number;
};

/** One kind of git host; of several header fields the first one counts. */
type GitHost = {
  readonly kind: GitHostKind;
  readonly eventFields: readonly string[];
  /** The host's id of the delivery, the same when it is sent again. */
  readonly keyFields: readonly string[];
  /** HMAC-SHA256 in hexadecimal digits, with or without `sha256=`, in one of the fields. */
  readonly signatureFields: readonly string[];
  readonly pushEvents: readonly string[];
  readonly read: (body: unknown) => RefUpdate[];
};

/** Gitea and Forgejo also send the fields of GitHub, so they come first. */
const hosts: readonly GitHost[] = [
  {
    kind: "gitea",
    eventFields: ["x-forgejo-event", "x-gitea-event"],
    keyFields: ["x-forgejo-delivery", "x-gitea-delivery"],
    signatureFields: ["x-forgejo-signature", "x-gitea-signature", "x-hub-signature-256"],
    pushEvents: ["push"],
    read: readOneRef,
  },
  {
    kind: "gitlab",
    eventFields: ["x-gitlab-event"],
    keyFields: ["idempotency-key", "x-gitlab-event-uuid"],
    signatureFields: [],
    pushEvents: ["Push Hook", "Tag Push Hook"],
    read: readOneRef,
  },
  {
    kind: "bitbucket",
    eventFields: ["x-event-key"],
    keyFields: ["x-request-uuid", "x-request-id"],
    signatureFields: ["x-hub-signature"],
    pushEvents: ["repo:push"],
    read: readSeveralRefs,
  },
  {
    kind: "github",
    eventFields: ["x-github-event"],
    keyFields: ["x-github-delivery"],
    signatureFields: ["x-hub-signature-256"],
    pushEvents: ["push"],
    read: readOneRef,
  },
];

/** The names that hosts and people choose are shown in lists. */
const nameLengthMax = 200;
/** Standard Webhooks accepts five minutes in both directions. */
const toleranceSeconds = 300;

/** An event of a host, before its signature is checked. */
export type HookEvent = {
  readonly host: GitHost;
  readonly event: string;
  readonly deliveryKey: string;
};

/** The event that the headers announce; null when no known kind of host sends such headers. */
export function eventOf(headers: Headers, body: Buffer): HookEvent | null {
  for (const host of hosts) {
    const [event] = fieldsOf(headers, host.eventFields);
    if (event === undefined) continue;
    const [own = createHash("sha256").update(body).digest("hex")] = fieldsOf(
      headers,
      host.keyFields,
    );
    return { host, event: event.slice(0, nameLengthMax), deliveryKey: own.slice(0, nameLengthMax) };
  }
  return null;
}

/** The refs that a signed event moves, or a sentence that says why it cannot be used. */
export type PushReading =
  | {
      readonly ok: true;
      readonly updates: readonly RefUpdate[];
      readonly repository: string | null;
    }
  | { readonly ok: false; readonly isSigned: boolean; readonly reason: string };

/** Checks the signature before it reads the body. */
export function readPush({ host, event }: HookEvent, message: SignedMessage): PushReading {
  if (!isSigned(host, message)) {
    const reason = "the signature is missing, or was not made with the secret of this address";
    return { ok: false, isSigned: false, reason };
  }
  try {
    const body = jsonOf(message);
    const updates = host.pushEvents.includes(event) ? host.read(body) : [];
    const repository = repositoryIn(body);
    return { ok: true, updates, repository: repository && commitText(repository, "author") };
  } catch (error) {
    // Whatever a stranger's JSON makes of the schemas is a body of another form.
    const why =
      error instanceof SyntaxError ? "is not JSON" : `is not what ${host.kind} sends for ${event}`;
    return { ok: false, isSigned: true, reason: `the body ${why}` };
  }
}

/** GitHub and Gitea can also send a form with the JSON in one field. */
function jsonOf({ headers, body }: SignedMessage): unknown {
  const isForm = String(headers["content-type"]).startsWith("application/x-www-form-urlencoded");
  const text = body.toString("utf8");
  const json = isForm ? (new URLSearchParams(text).get("payload") ?? "") : text;
  if (isTooDeep(json)) throw new Error(jsonTooDeep);
  return JSON.parse(json);
}

/**
 * Over the bytes as they were received. GitLab sends the secret itself, or signs as Standard
 * Webhooks does ("signing token").
 */
function isSigned({ kind, signatureFields }: GitHost, message: SignedMessage): boolean {
  const { headers, body, secret } = message;
  if (kind === "gitlab") {
    return (
      fieldsOf(headers, ["x-gitlab-token"]).some((token) => isSameText(token, secret)) ||
      isStandardSigned(message)
    );
  }
  const expected = createHmac("sha256", secret).update(body).digest("hex");
  return fieldsOf(headers, signatureFields).some((given) =>
    isSameText(given.replace(/^sha256=/, ""), expected),
  );
}

function isStandardSigned({ headers, body, secret, nowMs }: SignedMessage): boolean {
  const [id, time, given] = ["webhook-id", "webhook-timestamp", "webhook-signature"].map(
    (name) => fieldsOf(headers, [name])[0],
  );
  const key = readWebhookSecret(secret);
  if (id === undefined || given === undefined || key === null) return false;
  const seconds = Number(time);
  if (!(Math.abs(nowMs / 1000 - seconds) <= toleranceSeconds)) return false;
  const expected = standardSignature([key], { id, body }, seconds);
  return given.split(" ").some((signature) => isSameText(signature, expected));
}

/** Values of the fields that are there once; some hosts send empty signatures. */
function fieldsOf(headers: Headers, names: readonly string[]): string[] {
  return names.flatMap((name) => {
    const value = headers[name];
    return typeof value === "string" && value !== "" ? [value] : [];
  });
}
