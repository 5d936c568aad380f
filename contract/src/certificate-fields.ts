// Fields of queries and bodies of the routes of certificates, as rows like those of
// `parameters.ts`.
import type { Field } from "./field.ts";
import { nextToken, pageSize } from "./page-fields.ts";

/** The query of `GET /v2/operator/certificates`. */
export const certificateQuery = {
  pageSize: pageSize(200, 50, "certificates"),
  nextToken: nextToken("nextToken", /^[01]-[a-z0-9.*-]{1,255}$/),
} as const satisfies Record<string, Field>;

/** The body of `POST /v2/operator/certificates/{certificate}/revoke`. */
export const revocationFields = {
  reason: {
    kind: "choice",
    toml: null,
    choices: [
      "unspecified",
      "key_compromise",
      "affiliation_changed",
      "superseded",
      "cessation_of_operation",
    ],
    default: "unspecified",
    about: "Why the certificate is revoked, which the authority publishes.",
  },
} as const satisfies Record<string, Field>;
