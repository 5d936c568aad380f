// Rows of the table of fields of an app that the published interface does not have.

/** What an app's replicas may reach outside the platform. */
export const egressField = {
  kind: "list",
  change: "replica",
  toml: "deployment.egress_cidrs",
  areRanges: true,
  lengthMin: 0,
  lengthMax: 64,
  isSingleAllowed: false,
  isUnique: false,
  default: null,
  defaultAbout: "the whole internet",
  about:
    "The only addresses outside the platform that replicas may reach; an empty list: none, and no name servers. Does not apply to builds.",
} as const;

/** The secrets that its builds get. */
export const buildSecretsField = {
  kind: "list",
  change: "build",
  toml: "slipway.build.secrets",
  elementForm: /^[A-Za-z_][A-Za-z0-9_]{0,99}$/,
  elementsAre: "names of variables such as API_TOKEN (letters, digits and _), none of them twice",
  lengthMin: 0,
  lengthMax: 20,
  isSingleAllowed: false,
  isUnique: true,
  default: [],
  about: "Names of secrets of the app or its project that its builds get, each only in the steps that can use it.",
} as const;

/** Whether the submodules of its repository are fetched. */
export const gitSubmodulesField = {
  kind: "boolean",
  change: "build",
  toml: "slipway.git.submodules",
  default: false,
  about: "Fetch the submodules in the app's folder, from git hosts that the operator allows.",
} as const;

/** Whether files that Git LFS stores apart are fetched. */
export const gitLfsField = {
  kind: "boolean",
  change: "build",
  toml: "slipway.git.lfs",
  default: false,
  about: "Fetch the files in the app's folder that the repository stores in Git LFS.",
} as const;

/** How often a run is tried again. */
export const retriesField = {
  kind: "integer",
  change: "live",
  toml: "scaling.retries",
  min: 0,
  max: 10,
  default: 0,
  about: "How often an async run is retried after a temporary failure.",
} as const;
