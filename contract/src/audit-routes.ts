// The routes of the audit log: their queries, their answers, and the shape of an entry.
import { z } from "zod";
import { bytes, messageAnswer } from "./answers.ts";
import type { Field } from "./field.ts";
import { nextToken } from "./page-fields.ts";
import { paths, type Route } from "./route.ts";

const time = (about: string) =>
  ({
    kind: "text",
    toml: null,
    // Any text: a pattern cannot say which texts are valid times.
    form: /^[^\0]*$/,
    allowed: "a time of the form 2026-01-31T12:00:00Z (RFC 3339)",
    default: null,
    about,
  }) as const satisfies Field;

/** The query of `…/audit-log`. */
const auditLogQuery = {
  from: {
    ...time("Only entries at or after this time, within the retention period."),
    defaultAbout: "the oldest entry kept",
  },
  to: { ...time("Only entries before this time."), defaultAbout: "now" },
  action: {
    kind: "text",
    toml: null,
    form: /^(?=.{3,100}$)[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$/,
    allowed: "of the form <area>.<verb>, as secrets.read",
    default: null,
    defaultAbout: "all",
    about: "Only this action.",
  },
  actor: {
    kind: "text",
    toml: null,
    form: /^[^\0]{1,300}$/,
    allowed: "an actor's id, of 1 to 300 characters",
    default: null,
    defaultAbout: "all",
    about: "Only actions of the actor with this id.",
  },
  outcome: {
    kind: "choice",
    toml: null,
    choices: ["success", "failure"],
    default: null,
    defaultAbout: "both",
    about: "Only this outcome.",
  },
  limit: { kind: "integer", toml: null, min: 1, max: 200, default: 50, about: "Page size." },
  nextToken: nextToken("nextPageToken", /^[\w-]{1,60}$/),
} as const satisfies Record<string, Field>;

const { limit: _limit, nextToken: _nextToken, ...filters } = auditLogQuery;

/** The query of `…/audit-log/export`. */
const auditExportQuery = {
  format: {
    kind: "choice",
    toml: null,
    choices: ["ndjson", "csv"],
    default: "ndjson",
    about:
      "ndjson: one JSON object per line, which can be verified if it is not filtered; csv: for spreadsheets.",
  },
  ...filters,
} as const satisfies Record<string, Field>;

/** The body of `PUT …/audit-log/forwarding`. */
const forwardingFields = {
  url: {
    kind: "text",
    toml: null,
    form: /^[^\0]{1,4096}$/,
    allowed: "a URL that begins with http:// or https://",
    default: null,
    isRequired: true,
    about: "URL that entries are posted to.",
  },
  secret: {
    kind: "text",
    toml: null,
    form: /^whsec_[A-Za-z0-9+/]{32,86}={0,2}$/,
    allowed: "whsec_ and 24 to 64 bytes in base64",
    default: null,
    defaultAbout: "the existing secret, or a new one, which is then shown once in the response",
    isSecret: true,
    about: "Secret that signs the messages, according to Standard Webhooks.",
  },
} as const satisfies Record<string, Field>;

/** The state of a project's audit log forwarding. */
export const auditForwarding = z.strictObject({
  /** The URL without its query. */
  url: z.string(),
  state: z.enum(["active", "failing", "paused"]),
  createdAt: z.iso.datetime(),
  /** The number of the last entry that the receiver accepted. */
  sentThrough: z.int().min(0),
  /** The number of waiting entries. */
  waiting: z.int().min(0),
  lastSentAt: z.iso.datetime().nullable(),
  failingSince: z.iso.datetime().nullable(),
  nextAttemptAt: z.iso.datetime().nullable(),
  /** Why the last attempt failed. */
  reason: z.string().nullable(),
});

/** `secret`: present only if it was created by this request; it is not shown again. */
export const newAuditForwarding = auditForwarding.extend({
  secret: z.string().startsWith("whsec_").optional(),
});

/** One entry. All fields are always present; null where there is no value. */
export const auditEntry = z.strictObject({
  id: z.string(),
  /** The time of the action, with microseconds. */
  timestamp: z.iso.datetime({ precision: 6 }),
  /** The action, as `<area>.<verb>`. */
  action: z.string(),
  actor: z.strictObject({
    type: z.enum([
      "person",
      "service_account",
      "inference_token",
      "operator",
      "platform",
      "anonymous",
    ]),
    /** The id of a person or a token; null for the platform itself. */
    id: z.string().nullable(),
    name: z.string().nullable(),
  }),
  outcome: z.enum(["success", "failure"]),
  resource: z
    .strictObject({ type: z.string(), id: z.string().nullable(), name: z.string().nullable() })
    .nullable(),
  /** The `X-Request-Id` of the answer to the request that caused the entry. */
  requestId: z.string().nullable(),
  address: z.string().nullable(),
  userAgent: z.string().nullable(),
  /** Field → old and new value, secrets masked. An absent side means that there was no value. */
  changes: z.record(z.string(), z.unknown()).nullable(),
  /** The reason of a failure. */
  reason: z.string().nullable(),
});

/** A page of the audit log, newest entries first. */
export const auditLogPage = z.strictObject({
  logs: z.array(auditEntry),
  hasMore: z.boolean(),
  nextPageToken: z.string().optional(),
  retentionDays: z.int().min(1),
});

/** By operation id; part of the table in `routes.ts`. */
export const auditRoutes = {
  listAuditLog: {
    method: "GET",
    path: `${paths.project}/audit-log`,
    about:
      "The audit log of a project, newest entry first, as far back as `retentionDays`. For the project's owner only; reads by the operator are recorded as entries too.",
    access: "audit_log.read",
    audit: "audit_log.read",
    query: auditLogQuery,
    status: 200,
    answer: auditLogPage,
  },
  exportAuditLog: {
    method: "GET",
    path: `${paths.project}/audit-log/export`,
    about:
      "Exports the audit log of a project, filtered by the parameters, oldest entry first, as a stream. As NDJSON without parameters it can be verified with `slipway audit verify`; its first line describes its contents.",
    access: "audit_log.read",
    audit: "audit_log.export",
    query: auditExportQuery,
    status: 200,
    answer: bytes,
    isBytes: true,
    otherTypes: ["application/x-ndjson", "text/csv"],
  },
  getAuditForwarding: {
    method: "GET",
    path: `${paths.project}/audit-log/forwarding`,
    about: "Where the audit log of a project is forwarded to, and how far the receiver has come.",
    access: "audit_log.read",
    audit: null,
    status: 200,
    answer: auditForwarding,
  },
  setAuditForwarding: {
    method: "PUT",
    path: `${paths.project}/audit-log/forwarding`,
    about:
      "Starts forwarding the audit log of a project, in order and at least once per entry, or changes the receiver; resumes paused forwarding.",
    access: "audit_log.forward",
    audit: "audit_log.forwarding_set",
    body: { kind: "fields", fields: forwardingFields, required: ["url"] },
    status: 200,
    answer: newAuditForwarding,
  },
  deleteAuditForwarding: {
    method: "DELETE",
    path: `${paths.project}/audit-log/forwarding`,
    about: "Ends forwarding of the audit log.",
    access: "audit_log.forward",
    audit: "audit_log.forwarding_delete",
    status: 200,
    answer: messageAnswer,
  },
} as const satisfies Record<string, Route>;
