// The routes of the certificates that the platform gets by itself.
import { z } from "zod";
import { certificateQuery, revocationFields } from "./certificate-fields.ts";
import type { Route } from "./route.ts";
import { certificateStates } from "./words.ts";

const time = z.iso.datetime();
const certificates = "/v2/operator/certificates";
const one = `${certificates}/{certificate}` as const;

/** A certificate as shown to operators. */
export const operatorCertificate = z.strictObject({
  /** A host name, or `*.` and the name above. */
  name: z.string(),
  /** failing: the last try failed, whether or not there is a certificate still. */
  state: z.enum(certificateStates),
  begins_at: time.nullable(),
  ends_at: time.nullable(),
  /** When it is requested next: the first time, to renew it, or after a failure. */
  next_try_at: time,
  /** Failed tries since the last success. */
  failures: z.int().min(0),
  /** The first of these failed tries. */
  failing_since: time.nullable(),
  last_error: z.string().nullable(),
});

const certificateFile = z.strictObject({
  /** The path of the file with the certificate. */
  file: z.string(),
  /** The names that it is for. */
  names: z.array(z.string()),
  begins_at: time,
  ends_at: time,
});

const operatorCertificatePage = z.strictObject({
  items: z.array(operatorCertificate),
  nextToken: z.string().optional(),
});

/** The routes of certificates, by operation id. */
export const certificateRoutes = {
  listCertificates: {
    method: "GET",
    path: certificates,
    about:
      "The certificates that the platform gets by itself: first those with which something is wrong, then by name. Operators only.",
    access: "platform.manage",
    audit: null,
    query: certificateQuery,
    status: 200,
    answer: operatorCertificatePage,
  },
  listCertificateFiles: {
    method: "GET",
    path: "/v2/operator/certificate-files",
    about:
      "The certificates in use from the files of SLIPWAY_TLS_CERTIFICATE, in that order. Operators only.",
    access: "platform.manage",
    audit: null,
    status: 200,
    answer: z.array(certificateFile),
  },
  renewCertificate: {
    method: "POST",
    path: `${one}/renew`,
    about:
      "Has a certificate requested now, whether it is due or not. The authority's limits count all the same. Operators only.",
    access: "platform.manage",
    audit: "certificate.renew",
    status: 200,
    answer: operatorCertificate,
  },
  revokeCertificate: {
    method: "POST",
    path: `${one}/revoke`,
    about:
      "Has a certificate revoked, and another one requested with a new key. Until that is there, clients are refused. Operators only.",
    access: "platform.manage",
    audit: "certificate.revoke",
    body: { kind: "fields", fields: revocationFields, required: [] },
    status: 200,
    answer: operatorCertificate,
  },
} as const satisfies Record<string, Route>;
