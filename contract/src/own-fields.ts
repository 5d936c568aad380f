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
  about:
    "Names of secrets of the app or its project that its builds get, each only in the steps that can use it.",
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

/**
 * Folders whose names begin like this are the system's or the platform's, with all that is in them.
 */
const systemFolders = [
  "bin|boot|cortex|dev|etc|gnu|lib|lib32|lib64|libx32|nix|persistent-storage|proc|run|sbin|sys|tmp|usr|venv",
  "opt/(?:conda-packages|python|slipway|venv)|var/(?:lock|run|tmp)",
].join("|");
/** These hold what others put there: only a folder in them may be chosen. */
const sharedFolders = "home|home/app|opt|root|var|var/lib";

/** Where the app's own storage is mounted. */
export const storagePathField = {
  kind: "text",
  change: "replica",
  toml: "slipway.storage.path",
  form: new RegExp(
    `^(?!/(?:${systemFolders})(?:/|$))(?!/(?:${sharedFolders})/?$)` +
      "(?:/(?!\\.{1,2}(?:/|$))[A-Za-z0-9._-]{1,100}){1,10}/?$",
  ),
  allowed:
    'an absolute path such as /data (letters, digits, ".", "_" and "-", at most 10 folders, none of them ".."), which is not a folder of the system or the platform such as /etc, /usr, /tmp, /cortex or /persistent-storage, nor in one',
  default: null,
  defaultAbout:
    "none: the app has only /persistent-storage, which it shares with the other apps of its project",
  about:
    "Where the app sees storage of its own, which no other app sees. It outlives replicas and releases, counts as storage of the project, and is deleted with the app.",
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
