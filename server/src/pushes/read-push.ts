// Reads a request to a hook address: which kind of host sent it, whether that host knows the
// secret, and which refs the push moves.
import { createHash, createHmac } from "node:crypto";
import { isSameText } from "#lib/same-text.ts";
import type { GitHostKind } from "@slipway/contract/words.ts";
import { readWebhookSecret, standardSignature } from "#lib/webhook-signature.ts";
import { commitText } from "#deploy/source.ts";
import { isTooDeep, jsonTooDeep } from "#lib/json-depth.ts";
import { readOneRef, readSeveralRefs, repositoryIn, type RefUpdate } from "./push-bodies.ts";

/** Header fields by their lower-case names, as in Node. */
export type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/** A received event, and the secret of the address that received it. */
export type SignedMessage = {
  readonly headers: Headers;
  /** The bytes exactly as they were received. */
  readonly body: Buffer;
  readonly secret: string;
  /** The time, for signatures that contain one. */
  readonly nowMs: number;
};

/** One kind of git host. If a value may be in several header fields, the first one counts. */
type GitHost = {
  readonly kind: GitHostKind;
  /** The fields with the name of the event. */
  readonly eventFields: readonly string[];
  /** The fields with the host's id of the delivery, which is the same when it is sent again. */
  readonly keyFields: readonly string[];
  /** The fields with an HMAC-SHA256 in hexadecimal digits, with or without `sha256=`. */
  readonly signatureFields: readonly string[];
  /** The names of the events that are pushes. */
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

/** Names of events and keys of deliveries are shown in lists, so they are cut to this length. */
const nameLengthMax = 200;
/** How far a signature's time may be from now: five minutes, as in Standard Webhooks. */
const toleranceSeconds = 300;

/** An event of a host, before its signature is checked. */
export type HookEvent = {
  readonly host: GitHost;
  readonly event: string;
  readonly deliveryKey: string;
};

/** The event that the headers announce; null: no known kind of host sends such headers. */
export function eventOf(headers: Headers, body: Buffer): HookEvent | null {
  for (const host of hosts) {
    const [event] = fieldsOf(headers, host.eventFields);
    if (event === undefined) continue;
    const [hostKey] = fieldsOf(headers, host.keyFields);
    // Without an id from the host, requests with the same body count as one delivery.
    const deliveryKey = hostKey ?? createHash("sha256").update(body).digest("hex");
    return {
      host,
      event: event.slice(0, nameLengthMax),
      deliveryKey: deliveryKey.slice(0, nameLengthMax),
    };
  }
  return null;
}

/** The refs that a signed event moves, or the reason why the event cannot be used. */
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
    // The second argument only chooses the maximum length.
    return { ok: true, updates, repository: repository && commitText(repository, "author") };
  } catch (error) {
    // Any other error means that the JSON does not have the expected form, or is nested too deeply.
    const problem =
      error instanceof SyntaxError ? "is not JSON" : `is not what ${host.kind} sends for ${event}`;
    return { ok: false, isSigned: true, reason: `the body ${problem}` };
  }
}

/** Parses the JSON of a body. GitHub and Gitea can also send a form with the JSON in one field. */
function jsonOf({ headers, body }: SignedMessage): unknown {
  const isForm = String(headers["content-type"]).startsWith("application/x-www-form-urlencoded");
  const text = body.toString("utf8");
  const json = isForm ? (new URLSearchParams(text).get("payload") ?? "") : text;
  if (isTooDeep(json)) throw new Error(jsonTooDeep);
  return JSON.parse(json);
}

/**
 * Whether the body was signed with the secret. GitLab sends the secret itself, or signs as in
 * Standard Webhooks (its "signing token").
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
  return fieldsOf(headers, signatureFields).some((signature) =>
    isSameText(signature.replace(/^sha256=/, ""), expected),
  );
}

/** Whether the body was signed as in Standard Webhooks, not long ago. */
function isStandardSigned({ headers, body, secret, nowMs }: SignedMessage): boolean {
  const [id] = fieldsOf(headers, ["webhook-id"]);
  const [time] = fieldsOf(headers, ["webhook-timestamp"]);
  const [signatures] = fieldsOf(headers, ["webhook-signature"]);
  const key = readWebhookSecret(secret);
  if (id === undefined || signatures === undefined || key === null) return false;
  const seconds = Number(time);
  // The comparison is also false for a time that is not a number.
  const isRecent = Math.abs(nowMs / 1000 - seconds) <= toleranceSeconds;
  if (!isRecent) return false;
  const expected = standardSignature([key], { id, body }, seconds);
  return signatures.split(" ").some((signature) => isSameText(signature, expected));
}

/** The values of these fields. Leaves out fields that are repeated or empty. */
function fieldsOf(headers: Headers, names: readonly string[]): string[] {
  return names
    .map((name) => headers[name])
    .filter((value): value is string => typeof value === "string" && value !== "");
}
