// The table of settings: one row each. `config.ts` reads the environment through it; `--help` and docs/settings.md
// are made from it.

/** How a value is read; each kind has one parser in `config.ts`. */
export type SettingKind = "text" | "word" | "integer" | "boolean" | "url" | "choice" | "list" | "secret";

/** One row of the table. */
export type Setting = {
  readonly kind: SettingKind;
  /** As it would be written in the environment; null: unset. */
  readonly default: string | null;
  readonly min?: number;
  readonly max?: number;
  readonly choices?: readonly string[];
  /** One sentence. */
  readonly about: string;
};

/** Every setting by the name of its environment variable, in the order of the documentation. */
export const settingTable = {
  SLIPWAY_HOST: { kind: "word", default: "127.0.0.1", about: "Address that the platform listens on." },
  SLIPWAY_PORT: {
    kind: "integer",
    default: "7070",
    min: 0,
    max: 65535,
    about: "Port for everything: management API, calls of apps, dashboard; 0 takes any free one.",
  },
  SLIPWAY_PUBLIC_URL: {
    kind: "url",
    default: null,
    about:
      "URL under which users reach the platform, when a proxy or a name stands before it; default: made from host and port.",
  },
  SLIPWAY_TRUSTED_PROXIES: {
    kind: "list",
    default: "",
    about:
      "Addresses and ranges (CIDR, separated by commas) of proxies before the platform. Their X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host are believed and handed on to apps, so each of them must set these or add to them; without it all that comes through a proxy counts as one address, and as http.",
  },
  SLIPWAY_APP_PAGES_HOST: {
    kind: "word",
    default: null,
    about:
      "Another name of the host, under which nobody signs in to the dashboard: pages of apps that are called there run as they are. Under any other name browsers run them as strangers' pages (Content-Security-Policy: sandbox), since they would share the dashboard's sign-in.",
  },
  SLIPWAY_DATA_DIR: {
    kind: "text",
    default: ".slipway",
    about: "Folder for the embedded database, keys, builds and replicas; relative to where the platform is started.",
  },
  SLIPWAY_DATABASE_URL: {
    kind: "secret",
    default: null,
    about:
      "URL of a PostgreSQL database (15 or newer) that no other platform works on; default: an embedded one in the data folder.",
  },
  SLIPWAY_DATABASE_CONNECTIONS: {
    kind: "integer",
    default: "10",
    min: 2,
    max: 200,
    about: "The most connections to the database.",
  },
  SLIPWAY_DRIVER: {
    kind: "choice",
    default: null,
    choices: ["process", "docker", "kubernetes"],
    about:
      "What runs replicas; default: docker where an engine answers and this version has that driver, else process.",
  },
  SLIPWAY_APP_NETWORK: {
    kind: "choice",
    default: "auto",
    choices: ["auto", "own", "shared"],
    about:
      "Networks of replicas and builds run as processes. own: each has one of its own, which reaches the internet and the platform only (needs root and the programs ip and nft), else the start is refused; shared: all use the machine's; auto: own where it can be had.",
  },
  SLIPWAY_APP_NETWORK_ALLOW: {
    kind: "list",
    default: "",
    about:
      "Private IPv4 addresses and ranges (CIDR, separated by commas) that apps may reach from networks of their own, such as 10.1.0.0/16 or an address of this machine.",
  },
  SLIPWAY_APP_NAME_SERVERS: {
    kind: "list",
    default: "",
    about:
      "IPv4 addresses of name servers for networks of apps' own, separated by commas; default: those of this machine that are not on its loopback address.",
  },
  SLIPWAY_GIT_URL: {
    kind: "text",
    default: "https://github.com/{owner}/{repo}.git",
    about: "Where repositories are cloned from: http, https, ssh or file, with {owner} and {repo}.",
  },
  SLIPWAY_GIT_TIMEOUT_SECONDS: {
    kind: "integer",
    default: "300",
    min: 1,
    max: 3600,
    about: "The longest time that fetching a repository may take.",
  },
  SLIPWAY_GIT_SIZE_MB: {
    kind: "integer",
    default: "2048",
    min: 1,
    max: 1_000_000,
    about: "The most that a fetched repository may hold, in MB.",
  },
  SLIPWAY_BUILD_TIMEOUT_SECONDS: {
    kind: "integer",
    default: "3600",
    min: 10,
    max: 86400,
    about: "The longest time that a build may take, from its start until the first replica is started.",
  },
  SLIPWAY_BUILDS_AT_ONCE: {
    kind: "integer",
    default: "2",
    min: 1,
    max: 64,
    about:
      "How many builds run at the same time; those that only wait for their app to start do not count. Of two or more, one project leaves a place to others once there is another project.",
  },
  SLIPWAY_STORAGE_LIMIT_GB: {
    kind: "integer",
    default: null,
    min: 1,
    max: 1_000_000,
    about:
      "The most that a project's /persistent-storage may hold, in GB; replicas that let it grow further are ended. Default: no limit but the room that is kept free.",
  },
  SLIPWAY_REPLICA_DISK_GB: {
    kind: "integer",
    default: null,
    min: 1,
    max: 1_000_000,
    about:
      "The most that a replica (beside its code, in its home and /tmp) or a build may write to the disk, in GB; one that writes more is ended. Default: no limit but the room that is kept free.",
  },
  SLIPWAY_DISK_RESERVE_MB: {
    kind: "integer",
    default: null,
    min: 16,
    max: 1_000_000,
    about:
      "What is kept free on the disk for the platform, in MB, half of it by a file in the data folder: below it nothing is built, and replicas and builds that fill the disk are ended. Default: 5 % of the disk, at most 2000.",
  },
  SLIPWAY_LINE_LENGTH: {
    kind: "integer",
    default: "1000",
    min: 1,
    max: 1_000_000,
    about: "How many calls of one app may wait for a replica; one more is answered 503.",
  },
  SLIPWAY_BODY_LIMIT_MB: {
    kind: "integer",
    default: "512",
    min: 1,
    max: 100_000,
    about: "The largest body of a call to an app, in MB; a larger one is answered 413.",
  },
  SLIPWAY_ASYNC_BODY_LIMIT_MB: {
    kind: "integer",
    default: "16",
    min: 1,
    max: 256,
    about:
      "The largest body of a call with async=true, in MiB, which is kept until it has run; a larger one is answered 413.",
  },
  SLIPWAY_RESULT_LIMIT_MB: {
    kind: "integer",
    default: "16",
    min: 1,
    max: 256,
    about: "The longest answer that is kept of an async run or sent to a webhook, in MiB.",
  },
  SLIPWAY_RESULT_RETENTION_DAYS: {
    kind: "integer",
    default: "7",
    min: 1,
    max: 3650,
    about: "How long results of async runs, and requests of failed ones, are kept, in days.",
  },
  SLIPWAY_RUN_RETENTION_DAYS: {
    kind: "integer",
    default: "30",
    min: 1,
    max: 3650,
    about: "How long runs, calls and webhook deliveries are listed, in days.",
  },
  SLIPWAY_RUNS_AT_ONCE: {
    kind: "integer",
    default: "2000",
    min: 10,
    max: 100_000,
    about: "How many async runs wait for a replica or run at the same time; all others wait in the database.",
  },
  SLIPWAY_WEBHOOKS_AT_ONCE: {
    kind: "integer",
    default: "256",
    min: 1,
    max: 10_000,
    about: "How many webhook deliveries are under way at the same time.",
  },
  SLIPWAY_DEPLOYS_PER_MINUTE: {
    kind: "integer",
    default: "60",
    min: 1,
    max: 100_000,
    about: "How many apps a project may create per minute; more are answered 429.",
  },
  SLIPWAY_PRICES_FILE: {
    kind: "text",
    default: null,
    about:
      "TOML file with what a second of each compute type, core and GB costs, by pool and from which time on; default: built-in prices.",
  },
  SLIPWAY_METERING_SECONDS: {
    kind: "integer",
    default: "60",
    min: 1,
    max: 3600,
    about: "How often usage is counted; it stands in the ledger at the latest ten times as long after it came about.",
  },
  SLIPWAY_PLANS_FILE: {
    kind: "text",
    default: null,
    about: "TOML file with the plans that projects can have; default: one plan, self-hosted, which limits nothing.",
  },
  SLIPWAY_FAILED_TOKENS_PER_MINUTE: {
    kind: "integer",
    default: "100",
    min: 1,
    max: 1_000_000,
    about:
      "How many tokens that are not valid one address may send per minute; after them unknown ones are answered 429. More where many clients come from one address, as behind a proxy.",
  },
  SLIPWAY_PROVIDERS: {
    kind: "list",
    default: "aws,crusoe,nebius,local",
    about:
      "Identifiers that the field provider may name; until pools are configured this machine stands for all of them.",
  },
  SLIPWAY_SIMULATE_COMPUTE: {
    kind: "boolean",
    default: "false",
    about: "For development: apps that ask for a GPU or another accelerator run on the CPU.",
  },
  SLIPWAY_LOG_RETENTION_DAYS: {
    kind: "integer",
    default: "30",
    min: 1,
    max: 3650,
    about: "How long logs of apps and builds are kept, in days.",
  },
  SLIPWAY_AUDIT_RETENTION_DAYS: {
    kind: "integer",
    default: "365",
    min: 1,
    max: 3650,
    about: "How long entries of the audit log are kept and shown, in days.",
  },
  SLIPWAY_AUDIT_FORWARD_URL: {
    kind: "secret",
    default: null,
    about:
      "URL that all entries of the audit log of all projects are posted to from now on, in batches; it may be on a private network.",
  },
  SLIPWAY_AUDIT_FORWARD_SECRET: {
    kind: "secret",
    default: null,
    about: "Signs those batches: whsec_ and 24 to 64 bytes in base64; default: they are not signed.",
  },
  SLIPWAY_SECRET_KEY: {
    kind: "secret",
    default: null,
    about:
      "Key that encrypts secrets at rest: 64 hexadecimal digits; several, separated by commas, to rotate: the first encrypts, all decrypt; default: made once and kept in the data folder.",
  },
  SLIPWAY_WEBHOOK_ALLOW: {
    kind: "list",
    default: "",
    about: "Address ranges (CIDR, separated by commas) that webhooks may call although they are private.",
  },
  SLIPWAY_SIGN_UP: {
    kind: "choice",
    default: "invited",
    choices: ["invited", "open"],
    about: "Who becomes a person here: those who were invited to a project, or anybody who shows an e-mail address.",
  },
  SLIPWAY_SMTP_URL: {
    kind: "secret",
    default: null,
    about:
      "Mail server for invitations and links that reset passwords, as smtp://user:password@host:587 or smtps://…; default: no mail is sent.",
  },
  SLIPWAY_MAIL_FROM: {
    kind: "text",
    default: null,
    about: "Sender of the platform's mail, such as Slipway <slipway@example.org>; needed with SLIPWAY_SMTP_URL.",
  },
  SLIPWAY_OIDC_ISSUER: {
    kind: "url",
    default: null,
    about:
      "Issuer of an OpenID Connect provider that people sign in with; its redirect URL is {public URL}/v2/auth/callback/oidc.",
  },
  SLIPWAY_OIDC_CLIENT_ID: { kind: "text", default: null, about: "Id of the platform at that provider." },
  SLIPWAY_OIDC_CLIENT_SECRET: { kind: "secret", default: null, about: "The platform's secret at that provider." },
  SLIPWAY_OIDC_NAME: {
    kind: "text",
    default: "Single sign-on",
    about: "What the button for that provider says.",
  },
  SLIPWAY_GITHUB_CLIENT_ID: {
    kind: "text",
    default: null,
    about:
      "Id of an OAuth app at GitHub that people sign in with; its callback URL is {public URL}/v2/auth/callback/github.",
  },
  SLIPWAY_GITHUB_CLIENT_SECRET: { kind: "secret", default: null, about: "Secret of that OAuth app." },
  SLIPWAY_GITHUB_URL: {
    kind: "url",
    default: "https://github.com",
    about: "Where GitHub is: change it for GitHub Enterprise Server.",
  },
  SLIPWAY_METRICS_ADDRESS: {
    kind: "text",
    default: null,
    about:
      "Address and port on which /metrics is served for Prometheus, such as 127.0.0.1:9464; an address that others reach needs a token too; default: it is not served.",
  },
  SLIPWAY_METRICS_TOKEN: {
    kind: "secret",
    default: null,
    about:
      "What Prometheus shows there as a bearer token: at least 16 letters, digits and -._~+/=; default: none is needed.",
  },
  SLIPWAY_DRAIN_SECONDS: {
    kind: "integer",
    default: "30",
    min: 0,
    max: 43200,
    about: "How long running calls may go on after the platform was asked to stop.",
  },
  SLIPWAY_LOG_LEVEL: {
    kind: "choice",
    default: "info",
    choices: ["debug", "info", "warn", "error", "silent"],
    about: "The least important messages of the platform's own log.",
  },
} as const satisfies Record<string, Setting>;

export type PlatformSettingName = keyof typeof settingTable;
