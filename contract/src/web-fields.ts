// The rows of the table of fields of an app that concern pages of other origins, and those of web
// servers of apps.

const originForm =
  /^(?:\*|(?!http:\/\/.*:80$)(?!https:\/\/.*:443$)[a-z][a-z0-9+.-]{0,30}:\/\/[a-z0-9._[\]:-]{1,255})$/;
const headerForm = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,100}$/;

const endpointForm = /^(?:\/[\x21-\x7e]{0,499})?$/;
const endpointAllowed = 'a path that starts with "/" and holds no spaces, or "" for a TCP connect';

/** Which pages of other origins may call the app. */
export const corsFields = {
  corsCredentials: {
    kind: "boolean",
    change: "live",
    toml: "cors.credentials",
    default: false,
    about:
      "True: pages of corsOrigins may send cookies of the app along. Not together with the origin *.",
  },
  corsHeaders: {
    kind: "list",
    change: "live",
    toml: "cors.headers",
    elementForm: headerForm,
    elementsAre: 'names of headers such as X-Api-Version, or "*"',
    lengthMin: 0,
    lengthMax: 64,
    isSingleAllowed: false,
    isUnique: false,
    default: [],
    about:
      "Headers that pages of corsOrigins may send besides Authorization, Content-Type and those of the platform; *: any.",
  },
  corsOrigins: {
    kind: "list",
    change: "live",
    toml: "cors.origins",
    elementForm: originForm,
    elementsAre:
      'origins such as https://example.com (in lower case, without a path and the usual port), or "*"',
    lengthMin: 0,
    lengthMax: 64,
    isSingleAllowed: false,
    isUnique: false,
    default: [],
    defaultAbout: "none: an app with runtime custom says itself what other origins may do",
    about:
      "Origins of pages that may call the app from a browser (CORS); *: all. The platform answers their preflights, and lets them read answers, its own errors too.",
  },
} as const;

/** What the platform asks an app with runtime custom. */
export const webFields = {
  healthcheckEndpoint: {
    kind: "text",
    change: "replica",
    toml: "runtime.custom.healthcheck_endpoint",
    form: endpointForm,
    allowed: endpointAllowed,
    default: "",
    defaultAbout: "a TCP connect",
    about: "HTTP path that answers 200 while an app with runtime custom is healthy.",
  },
  keepPathPrefix: {
    kind: "boolean",
    change: "replica",
    toml: "runtime.custom.keep_path_prefix",
    default: false,
    about:
      "True: an app with runtime custom is asked for the whole path, /v4/{project}/{app}/…, as servers want it that are configured with a base path; false: it answers below /.",
  },
  readycheckEndpoint: {
    kind: "text",
    change: "replica",
    toml: "runtime.custom.readycheck_endpoint",
    form: endpointForm,
    allowed: endpointAllowed,
    default: "",
    defaultAbout: "a TCP connect",
    about: "HTTP path that answers 200 while an app with runtime custom accepts calls.",
  },
} as const;
