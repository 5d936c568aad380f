// Bodies and answers of the token routes: service accounts, API keys (tokens for calling apps), the
// operator's tokens, and the signing keys.
import { z } from "zod";
import type { Field } from "./field.ts";
import { shownName } from "./name-field.ts";
import { choosablePermissions, roles } from "./words.ts";

const name = shownName(100, "Display name, here and in the audit log.");

const expiresAt = (defaultAbout: string) =>
  ({
    kind: "text",
    toml: null,
    form: /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,9})?)?(?:Z|[+-]\d{2}:\d{2})$/i,
    allowed: "a time of the form 2026-01-31T12:00:00Z (RFC 3339)",
    default: null,
    defaultAbout,
    about: "From this time on it is no longer valid.",
  }) as const satisfies Field;

const role = {
  kind: "choice",
  toml: null,
  choices: roles,
  default: null,
  about: "Its permissions, as a role. Either this or permissions; never more than the caller has.",
} as const satisfies Field;

const permissions = {
  kind: "list",
  toml: null,
  choices: choosablePermissions,
  lengthMin: 1,
  lengthMax: choosablePermissions.length,
  isSingleAllowed: false,
  isUnique: true,
  default: [],
  defaultAbout: "those of the role",
  about: "Its individual permissions. Either this or role; never more than the caller has.",
} as const satisfies Field;

/** The body of `POST …/service-accounts`. */
export const serviceAccountFields = {
  name,
  role,
  permissions,
  expires_at: expiresAt("it does not expire"),
} as const satisfies Record<string, Field>;

/** The body of `PATCH …/service-accounts/{…}`. */
export const serviceAccountChange = { name, role, permissions } as const satisfies Record<
  string,
  Field
>;

/** The body of `POST …/api-keys`. */
export const apiKeyFields = {
  name,
  expires_at: expiresAt("in ten years"),
  readable: {
    kind: "boolean",
    toml: null,
    default: false,
    about:
      "True: anyone who may issue tokens can read it again in the list, for clients that fetch it before they call an app.",
  },
} as const satisfies Record<string, Field>;

/** The body of `POST /v2/operator/tokens`. */
export const operatorTokenFields = {
  name,
  expires_at: expiresAt("it does not expire"),
} as const satisfies Record<string, Field>;

/** The bodies of `…/rotate`. */
export const rotationFields = {
  expires_at: {
    ...expiresAt("the same lifetime as the previous token"),
    about: "From this time on the new token is no longer valid; null: it does not expire.",
  },
  overlap_seconds: {
    kind: "integer",
    toml: null,
    min: 0,
    max: 2_592_000,
    default: 86_400,
    about: "How long the previous token stays valid; 0 revokes all earlier tokens immediately.",
  },
} as const satisfies Record<string, Field>;

const time = z.iso.datetime();
const state = z.enum(["active", "expired", "revoked"]);

/** Time and address of the last use; some seconds late. */
const lastUse = { last_used_at: time.nullable(), last_used_address: z.string().nullable() };

/** Fields common to all kinds of tokens. `expires_at`: of the newest token; null: never. */
const shownAccount = {
  id: z.uuid(),
  name: z.string(),
  state,
  created_at: time,
  expires_at: time.nullable(),
  ...lastUse,
  /** Newest first; during a rotation two are active. */
  tokens: z.array(
    z.strictObject({
      id: z.uuid(),
      state,
      created_at: time,
      expires_at: time.nullable(),
      ...lastUse,
    }),
  ),
};

/** Shown only when the token is issued. */
const token = z.string().min(1);

export const serviceAccount = z.strictObject({
  ...shownAccount,
  /** Null when its permissions were chosen individually. */
  role: z.enum(roles).nullable(),
  /** Null when it has a role. */
  permissions: z.array(z.enum(choosablePermissions)).nullable(),
});
export const serviceAccountList = z.array(serviceAccount);
export const issuedServiceAccount = serviceAccount.extend({ token });

export const apiKey = z.strictObject({
  ...shownAccount,
  readable: z.boolean(),
  /** `cerebrium_jwt` if `apiKey` contains the token: the value that clients expect. */
  source: z.enum(["cerebrium_jwt", "slipway"]),
  /** The token, if it is active and readable and the caller may issue tokens. */
  apiKey: z.string().nullable(),
});
export const apiKeyList = z.array(apiKey);
export const issuedApiKey = apiKey.extend({ token });

export const operatorToken = z.strictObject(shownAccount);
export const operatorTokenList = z.array(operatorToken);
export const issuedOperatorToken = operatorToken.extend({ token });

export const signingKey = z.strictObject({
  /** `kid` in tokens and in the published key set. */
  id: z.string(),
  /** current: signs; retired: only verifies; withdrawn: its signatures are invalid. */
  state: z.enum(["current", "retired", "withdrawn"]),
  created_at: time,
  retired_at: time.nullable(),
  withdrawn_at: time.nullable(),
  /** The number of valid tokens of service accounts, API keys and operators that it signed. */
  valid_tokens: z.int().min(0),
});
export const signingKeyList = z.array(signingKey);

/** The query of `DELETE /v2/operator/signing-keys/{key_id}`. */
export const withdrawKeyQuery = {
  force: {
    kind: "boolean",
    toml: null,
    default: false,
    about:
      "True: withdraw it even if it has signed valid tokens, which are then revoked immediately; use this if a key was stolen.",
  },
} as const satisfies Record<string, Field>;
