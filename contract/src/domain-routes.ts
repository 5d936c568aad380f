// Routes of domains: names of its own that an app claims, and what DNS says of them.
import { z } from "zod";
import { messageAnswer } from "./answers.ts";
import type { Field } from "./field.ts";
import { paths, type Route } from "./route.ts";
import { certificateStates, domainStates } from "./words.ts";

const domains = `${paths.app}/domains` as const;
const time = z.iso.datetime();

/** A record in DNS. */
const record = (name: string, value: string) =>
  z.strictObject({ name: example(name), value: example(value) });

function example(text: string) {
  return z.string().meta({ examples: [text] });
}

/** A domain of an app. */
export const domain = z.strictObject({
  name: example("shop.example.org"),
  state: z.enum(domainStates),
  /** What the latest check found in DNS instead of a proof; null: a proof, or no check was made. */
  found: z.string().nullable(),
  /** The CNAME record that leads to the app and proves the domain; null: apps have no own hosts. */
  cname: record("shop.example.org", "hello-p-4f1c09aa.apps.example.net").nullable(),
  /** The TXT record that proves the domain otherwise. The name must also lead to `host`. */
  txt: record("_slipway-challenge.shop.example.org", "5be1d3f2c7e8a9b0c1d2e3f4a5b6c7d8"),
  /** The platform's host name or address. */
  host: example("slipway.example.com"),
  createdAt: time,
  checkedAt: time.nullable(),
  /** When DNS is asked next; null: not before somebody asks for it. */
  nextCheckAt: time.nullable(),
  validatedAt: time.nullable(),
  /** When the domain fails if nothing changes; null: it has failed, or nothing is missing. */
  failsAt: time.nullable(),
  /** The domain's certificate; null: the domain is not proven, or the platform requests none. */
  certificate: z
    .strictObject({
      /** failing: the last try failed, whether or not there is a certificate still. */
      state: z.enum(certificateStates),
      endsAt: time.nullable(),
      /** When it is requested next: the first time, to renew it, or after a failure. */
      nextTryAt: time,
      /** The first failed try since the last success. */
      failingSince: time.nullable(),
      lastError: z.string().nullable(),
    })
    .nullable(),
});

const domainFields = {
  name: {
    kind: "text",
    toml: null,
    form: /^[^\0]{1,1000}$/,
    allowed: "a host name such as shop.example.org",
    default: null,
    about: "The host name, without scheme, port and path.",
  },
} as const satisfies Record<string, Field>;

/** By operation id; part of the table in `routes.ts`. */
export const domainRoutes = {
  listDomains: {
    method: "GET",
    path: domains,
    about: "The domains of an app, by name.",
    access: "apps.read",
    audit: null,
    status: 200,
    answer: z.array(domain),
  },
  addDomain: {
    method: "POST",
    path: domains,
    about:
      "Adds a domain to an app. It is Pending until DNS has one of the records in the answer, which is looked up at once and then for two days; then it is Validated, and the app answers on it. A name that the app has already is answered as it is; a Failed one is looked up again.",
    access: "apps.update",
    audit: "domain.add",
    body: { kind: "fields", fields: domainFields, required: ["name"] },
    status: 201,
    answer: domain,
  },
  checkDomain: {
    method: "POST",
    path: `${domains}/{domain}/check`,
    about:
      "Looks up the records of a domain now. A Failed one becomes Pending again, for two more days.",
    access: "apps.update",
    audit: "domain.check",
    status: 200,
    answer: domain,
  },
  removeDomain: {
    method: "DELETE",
    path: `${domains}/{domain}`,
    about: "Removes a domain from an app, which no longer answers on it.",
    access: "apps.update",
    audit: "domain.remove",
    status: 200,
    answer: messageAnswer,
  },
} as const satisfies Record<string, Route>;
