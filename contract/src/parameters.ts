// Fields of queries and bodies of the management API, except create-app, as rows like those of its
// table of fields.
import type { Field } from "./field.ts";
import { nextToken, pageSize } from "./page-fields.ts";
import { deliveryStates, runStates } from "./words.ts";

/** A time in a query. */
export const time = (about: string) =>
  ({
    kind: "text",
    toml: null,
    form: /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/i,
    allowed: "a time of the form 2026-01-31T12:00:00Z (RFC 3339)",
    default: null,
    about,
  }) as const satisfies Field;

/** The id of a replica. */
export const replicaName = (about: string) =>
  ({
    kind: "text",
    toml: null,
    form: /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/,
    allowed: "at most 100 letters, digits, dots, dashes and underscores",
    default: null,
    about,
  }) as const satisfies Field;

const uuid = (allowed: string, about: string) =>
  ({
    kind: "text",
    toml: null,
    form: /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i,
    allowed,
    default: null,
    about,
  }) as const satisfies Field;

/** The query of `…/builds/{b}/logs`. */
export const buildLogQuery = {
  pageSize: pageSize(1000, 1000, "lines"),
  nextToken: nextToken("nextPageToken", /^[\w-]{1,60}$/),
  follow: {
    kind: "boolean",
    toml: null,
    default: false,
    about: "True: follow live, as server-sent events.",
  },
} as const satisfies Record<string, Field>;

/** The query of `…/apps/{a}/logs`. */
export const appLogQuery = {
  container: replicaName("Only lines of this replica."),
  runId: uuid("a run id, which is a UUID", "Only lines of this run."),
  stream: {
    kind: "choice",
    toml: null,
    choices: ["stdout", "stderr"],
    default: null,
    defaultAbout: "both",
    about: "Only lines of this stream.",
  },
  search: {
    kind: "text",
    toml: null,
    form: /^[^\0]{1,200}$/,
    allowed: "1 to 200 characters",
    default: null,
    about: "Only lines that contain this text; case-insensitive.",
  },
  afterDate: time("Only lines at or after this time."),
  beforeDate: time("Only lines before this time."),
  direction: {
    kind: "choice",
    toml: null,
    choices: ["forward", "backward"],
    default: "forward",
    about: "forward: oldest line first; backward: newest line first.",
  },
  pageSize: pageSize(1000, 100, "lines"),
  nextToken: nextToken("nextPageToken", /^[A-Za-z0-9_-]{1,64}$/),
  follow: {
    kind: "boolean",
    toml: null,
    default: false,
    about: "True: follow live, as server-sent events.",
  },
} as const satisfies Record<string, Field>;

const runToken = nextToken("nextToken", /^[a-z0-9-]{1,50}[\w-]{0,30}$/);

const deadStatus = {
  kind: "choice",
  toml: null,
  choices: ["failure", "timeout"],
  default: null,
  defaultAbout: "both",
  about: "Only runs that ended in this state.",
} as const satisfies Field;

/** The query of `…/apps/{a}/runs`. */
export const runQuery = {
  asyncOnly: {
    kind: "boolean",
    toml: null,
    default: false,
    about: "True: only async runs, no plain calls.",
  },
  status: {
    kind: "choice",
    toml: null,
    choices: runStates,
    default: null,
    defaultAbout: "all",
    about: "Only runs with this status.",
  },
  pageSize: pageSize(200, 50, "runs"),
  nextToken: runToken,
} as const satisfies Record<string, Field>;

/** The query of `GET …/apps/{a}/dead-runs`. */
export const deadRunQuery = {
  status: deadStatus,
  pageSize: pageSize(200, 50, "runs"),
  nextToken: runToken,
} as const satisfies Record<string, Field>;

/** Selects the dead runs of an app to redrive or purge. */
export const deadRunChoice = {
  status: deadStatus,
  limit: {
    kind: "integer",
    toml: null,
    min: 1,
    max: 1_000_000,
    default: null,
    defaultAbout: "all",
    about: "The maximum number of runs, oldest first.",
  },
} as const satisfies Record<string, Field>;

const webhookToken = nextToken("nextToken", /^[\w-]{1,200}$/);
const endpointId = uuid("an endpoint's id, which is a UUID", "Only deliveries to this endpoint.");

/** The query of `GET …/webhook-deliveries`. */
export const deliveryQuery = {
  state: {
    kind: "choice",
    toml: null,
    choices: deliveryStates,
    default: null,
    defaultAbout: "all",
    about: "Only deliveries in this state.",
  },
  endpointId,
  runId: uuid("a run id, which is a UUID", "Only deliveries of this run."),
  pageSize: pageSize(200, 50, "deliveries"),
  nextToken: webhookToken,
} as const satisfies Record<string, Field>;

/** The query of `GET …/webhook-endpoints`. */
export const endpointQuery = {
  pageSize: pageSize(200, 50, "endpoints"),
  nextToken: webhookToken,
} as const satisfies Record<string, Field>;

/** The body of `POST …/webhook-deliveries/replay`. */
export const replayFields = {
  from: time("Deliveries created at or after this time."),
  to: time("Deliveries created before this time."),
  state: {
    kind: "choice",
    toml: null,
    choices: ["failed", "delivered"],
    default: "failed",
    about: "Only deliveries that ended in this state.",
  },
  endpointId,
} as const satisfies Record<string, Field>;

/** The body of `POST …/webhook-secrets`. */
export const webhookSecretFields = {
  overlapHours: {
    kind: "number",
    toml: null,
    min: 0,
    max: 720,
    default: 24,
    about:
      "How many hours the previous secret stays valid, so that you can update receivers one by one.",
  },
} as const satisfies Record<string, Field>;

/** The body of `PUT …/webhook-schedule`. */
export const scheduleFields = {
  schedule: {
    kind: "choice",
    toml: null,
    choices: ["standard", "short"],
    default: null,
    about:
      "standard: 10 attempts over about 75 hours; short: 3 attempts, after about 2 and 4 seconds, and fewer kinds of failure are retried.",
  },
} as const satisfies Record<string, Field>;

/** The body of `PUT …/git-credentials/{host}`. */
export const credentialFields = {
  kind: {
    kind: "choice",
    toml: null,
    choices: ["token", "ssh_key"],
    default: null,
    about: "token: for http and https; ssh_key: a private key for ssh.",
  },
  username: {
    kind: "text",
    toml: null,
    form: /^[^\x00-\x20\x7f:@/]{1,200}$/,
    allowed: 'at most 200 characters without spaces, ":", "@" and "/"',
    default: null,
    defaultAbout: "x-access-token for a token, git for an ssh key",
    about: "User name to log in with.",
  },
  secret: {
    kind: "text",
    toml: null,
    form: /^[^\0]{1,65536}$/,
    allowed: "1 to 65536 characters",
    default: null,
    isSecret: true,
    about: "The token or the private key; encrypted at rest, never shown again.",
  },
} as const satisfies Record<string, Field>;

/** The query of `PATCH …/apps/{a}`. */
export const changeQuery = {
  dryRun: {
    kind: "boolean",
    toml: null,
    default: false,
    about: "True: only answers what the change would take; nothing is changed or started.",
  },
} as const satisfies Record<string, Field>;

/** The query of `PATCH …/secrets`. */
export const secretQuery = {
  restart: {
    kind: "boolean",
    toml: null,
    default: false,
    about:
      "True: the apps that use these secrets are restarted, changed or not: new replicas start, and the old ones end once the new ones accept calls.",
  },
} as const satisfies Record<string, Field>;

/** Names and values of secrets. */
export const secretValues = {
  kind: "map",
  name: /^[A-Za-z0-9_.-]{1,253}$/,
  value: {
    kind: "text",
    toml: null,
    form: /^[^\0]{0,65536}$/,
    allowed: "a string of at most 65536 characters",
    default: null,
    isSecret: true,
    about: "Value of the secret; encrypted at rest.",
  },
} as const;
