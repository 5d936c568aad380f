// The table of settings, one row each. `config.ts` reads the environment through it; `--help` and
// docs/settings.md are generated from it.
import { driverNames } from "#drivers/driver-table.ts";

/** How a value is read; each kind has one parser in `config.ts`. */
export type SettingKind =
  | "text"
  | "word"
  | "integer"
  | "boolean"
  | "url"
  | "choice"
  | "list"
  | "secret";

/** One row of the table. */
export type Setting = {
  readonly kind: SettingKind;
  /** The default as written in the environment; null: unset. */
  readonly default: string | null;
  readonly min?: number;
  readonly max?: number;
  readonly choices?: readonly string[];
  /** The description for `--help` and the documentation. */
  readonly about: string;
};

/** Begins a row; `about` completes it. So each row reads kind, default, limits, description. */
const row = (
  kind: SettingKind,
  value: string | null,
  rest: Pick<Setting, "min" | "max" | "choices"> = {},
) => ({
  about: (about: string): Setting => ({ kind, default: value, ...rest, about }),
});
const text = (value: string | null) => row("text", value);
const word = (value: string | null) => row("word", value);
const boolean = (value: string) => row("boolean", value);
const url = (value: string | null) => row("url", value);
const list = (value: string) => row("list", value);
const secret = (value: null) => row("secret", value);
const integer = (value: string | null, min: number, max: number) =>
  row("integer", value, { min, max });
const choice = (value: string | null, choices: readonly string[]) =>
  row("choice", value, { choices });

/** Every setting by the name of its environment variable, in the order of the documentation. */
export const settingTable = {
  SLIPWAY_HOST: word("127.0.0.1").about("Address to listen on."),
  SLIPWAY_PORT: integer("7070", 0, 65535).about(
    "Port for everything: management API, app calls, dashboard; 0 picks any free port.",
  ),
  SLIPWAY_TLS_CERTIFICATE: list("").about(
    "File with a certificate and its chain (PEM), which opens the HTTPS port, for HTTP/1.1 and HTTP/2; several files, separated by commas, are chosen by host name. Files that change are read again; SLIPWAY_PUBLIC_URL must be an https URL.",
  ),
  SLIPWAY_TLS_KEY: list("").about(
    "File with the key of that certificate (PEM, without a passphrase); as many as there are certificates, in the same order.",
  ),
  SLIPWAY_TLS_PORT: integer("443", 0, 65535).about(
    "Port of HTTPS, at the address of SLIPWAY_HOST; 0 picks any free port.",
  ),
  SLIPWAY_ACME_EMAIL: text(null).about(
    "Mail address of the account at an authority that issues certificates by ACME; with it, the platform requests and renews its certificates by itself, and opens the HTTPS port. SLIPWAY_PUBLIC_URL must be an https URL with a host name.",
  ),
  SLIPWAY_ACME_AGREE_TO_TERMS: boolean("false").about(
    "Whether you agree to the terms of service of that authority; required with SLIPWAY_ACME_EMAIL.",
  ),
  SLIPWAY_ACME_DIRECTORY: url("https://acme-v02.api.letsencrypt.org/directory").about(
    "Address of the authority's directory; default: that of Let's Encrypt.",
  ),
  SLIPWAY_ACME_CA_FILE: text(null).about(
    "File with the certificates (PEM) of a private authority's own TLS, trusted for it instead of the usual ones.",
  ),
  SLIPWAY_ACME_EXTERNAL_KEY_ID: text(null).about(
    "Key id of an account that the authority knows already (external account binding), if it asks for one.",
  ),
  SLIPWAY_ACME_EXTERNAL_HMAC_KEY: secret(null).about("Key of that account, as base64url."),
  SLIPWAY_ACME_CHALLENGE: choice("http-01", ["http-01", "tls-alpn-01"]).about(
    "How names are proven to the authority: http-01 at port 80, which must lead to SLIPWAY_PORT, or tls-alpn-01 at port 443, which must lead to SLIPWAY_TLS_PORT.",
  ),
  SLIPWAY_ACME_DNS: choice(null, ["hook", "cloudflare", "digitalocean"]).about(
    "Who changes the DNS records that prove the platform's own names instead (dns-01): a program, or a provider of DNS. With it, one certificate covers all host names of apps.",
  ),
  SLIPWAY_ACME_DNS_HOOK: text(null).about(
    "Program that makes and removes the records, with SLIPWAY_ACME_DNS=hook; an absolute path.",
  ),
  SLIPWAY_ACME_DNS_TOKEN: secret(null).about(
    "Token of the provider of DNS, which may change the records of the zone.",
  ),
  SLIPWAY_ACME_DNS_SERVERS: list("").about(
    "Addresses of name servers, with an optional port, that must know a new record before the authority is asked; default: those of its zone.",
  ),
  // By default, two projects together can use up what Let's Encrypt allows one domain in a week.
  SLIPWAY_CERTIFICATES_PER_WEEK: integer("25", 1, 2_000).about(
    "For how many new names (host names of apps, domains) of one project certificates are requested in 7 days; further names wait. Renewals are not counted.",
  ),
  // The maximum is two years.
  SLIPWAY_HSTS_SECONDS: integer("0", 0, 63_072_000).about(
    "How long browsers that came over HTTPS use nothing else for that host name (Strict-Transport-Security); 0: they are not told.",
  ),
  SLIPWAY_REDIRECT_TO_HTTPS: boolean("false").about(
    "Whether other machines get no answers over plain HTTP: pages are redirected to HTTPS, everything else is refused. This machine and trusted proxies are still answered.",
  ),
  SLIPWAY_PUBLIC_URL: url(null).about(
    "URL at which users reach the platform, if it is behind a proxy or a host name; default: built from host and port.",
  ),
  SLIPWAY_ANNOUNCEMENT: text(null).about(
    "A sentence for everybody who uses the platform, such as a planned interruption; anybody can read it at /v2/notifications.",
  ),
  SLIPWAY_ANNOUNCEMENT_LINK: url(null).about(
    "URL of a page that says more about SLIPWAY_ANNOUNCEMENT.",
  ),
  SLIPWAY_TRUSTED_PROXIES: list("").about(
    "Addresses and ranges (CIDR, separated by commas) of proxies in front of the platform. Their X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host are believed and passed on to apps, so each proxy must set these or append to them. Without this setting, everything that comes through a proxy counts as one address, and as http.",
  ),
  SLIPWAY_PROXY_PROTOCOL: boolean("false").about(
    "Whether connections of SLIPWAY_TRUSTED_PROXIES begin with a header of the PROXY protocol (version 1 or 2), on both ports and before TLS: they count as connections of the client in it, and are closed without it. Other connections have no header.",
  ),
  SLIPWAY_DOMAIN: word(null).about(
    "Domain below which each app has a host name of its own, {app}-{project}.{domain}, where its pages run without restrictions. Browsers sandbox pages that are opened by the app's path (Content-Security-Policy: sandbox), because these would share the dashboard's sign-in. localhost needs no DNS, but works only in browsers on the platform's own machine; any other domain needs a DNS record for *.{domain}, and should not be one of the dashboard's. Default: localhost.",
  ),
  SLIPWAY_APP_PAGES_HOST: word(null).about("Older name of SLIPWAY_DOMAIN, which is still read."),
  SLIPWAY_DNS_SERVERS: list("").about(
    "DNS servers that are asked for the records that prove domains of apps: IP addresses, with a port if it is not 53, separated by commas; default: those of this machine.",
  ),
  SLIPWAY_DATA_DIR: text(".slipway").about(
    "Folder for the embedded database, keys, builds and replicas; relative to the folder in which the platform is started.",
  ),
  SLIPWAY_DATABASE_URL: secret(null).about(
    "URL of a PostgreSQL database (15 or newer) that no other platform uses; default: an embedded database in the data folder.",
  ),
  SLIPWAY_DATABASE_CONNECTIONS: integer("10", 2, 200).about(
    "Maximum number of database connections.",
  ),
  SLIPWAY_DRIVER: choice("auto", ["auto", ...driverNames]).about(
    "Driver that runs replicas and builds: process, as processes of this machine, or docker, as containers of an engine on this machine. Apps that one driver has built must be deployed again for the other. auto: the one that was used until now; for a new installation docker where an engine answers and can build images, else process.",
  ),
  SLIPWAY_DOCKER_HOST: text("unix:///var/run/docker.sock").about(
    "Socket of the Docker engine that the docker driver uses.",
  ),
  SLIPWAY_DOCKER_CACHE_GB: integer("20", 1, 100_000).about(
    "How much the Docker engine may keep of earlier steps of builds, in GB.",
  ),
  SLIPWAY_RUNTIME_V1: word("runc").about(
    "OCI runtime of the Docker engine for apps with containerRuntime v1; apps without the field get the engine's default.",
  ),
  SLIPWAY_RUNTIME_V2: word("runc").about(
    "The same for apps with containerRuntime v2, such as runsc (gVisor).",
  ),
  SLIPWAY_DOCKER_BUILD_NETWORK: choice("open", ["open", "closed"]).about(
    "Network of builds of images, which is the engine's default bridge. closed: private networks, services of this machine and metadata addresses are closed to all containers on it, also to those of others; this needs root and the program nft. open: as the engine has it.",
  ),
  SLIPWAY_DOCKER_REGISTRIES: list("").about(
    "Registries from which builds of images may pull beside the usual public ones, with their ports, separated by commas, such as registry.example.com:5000; a star stands for one part of a name, and alone for all. A registry can have the engine fetch any address of its machine: name only those whose operators you trust.",
  ),
  SLIPWAY_IMAGE_REGISTRY: text(null).about(
    "Name in a registry to which images of apps are pushed, such as registry.example.com/apps; default: images stay in the engine.",
  ),
  SLIPWAY_IMAGE_REGISTRY_AUTH: secret(null).about(
    "Credentials for SLIPWAY_IMAGE_REGISTRY: name:password, or a Docker configuration in JSON.",
  ),
  SLIPWAY_APP_NETWORK: choice("auto", ["auto", "own", "shared"]).about(
    "Network of apps. own: each replica and build that runs as a process, and the containers of each app, have a network of their own, which reaches only the internet and the platform; this needs root and the programs ip and nft, otherwise the platform refuses to start. shared: processes use the host's network, and containers reach what the host reaches. auto: own where possible.",
  ),
  SLIPWAY_APP_NETWORK_ALLOW: list("").about(
    "Private IPv4 addresses and ranges (CIDR, separated by commas) that apps may reach from their own networks, such as 10.1.0.0/16 or an address of this machine.",
  ),
  SLIPWAY_APP_NAME_SERVERS: list("").about(
    "IPv4 addresses of DNS servers for apps that have their own networks, separated by commas; default: those of this machine that are not on its loopback address.",
  ),
  SLIPWAY_GIT_URL: text("https://github.com/{owner}/{repo}.git").about(
    "URL template that repositories are cloned from: http, https, ssh or file, with {owner} and {repo}.",
  ),
  SLIPWAY_GIT_HOSTS: list("").about(
    "Further git hosts that apps and their submodules may be fetched from, in addition to that of SLIPWAY_GIT_URL, separated by commas: names such as gitlab.com, which are reached over https, or URL templates.",
  ),
  SLIPWAY_GIT_TIMEOUT_SECONDS: integer("300", 1, 3600).about("Timeout for fetching a repository."),
  SLIPWAY_GIT_SIZE_MB: integer("2048", 1, 1_000_000).about(
    "Maximum size of a fetched repository, in MB.",
  ),
  SLIPWAY_UPLOAD_SIZE_MB: integer("10000", 1, 1_000_000).about(
    "Maximum size of the files of a deployment by upload, packed and unpacked, in MB. The uploads of a project that wait for more, or for their builds, take at most four times as much together.",
  ),
  SLIPWAY_GIT_POLL_SECONDS: integer("60", 0, 86400).about(
    "How often the branches of apps are checked for new commits where no hook reports pushes; apps whose hook has worked are checked every hour. 0: never.",
  ),
  SLIPWAY_BUILD_TIMEOUT_SECONDS: integer("3600", 10, 86400).about(
    "Build timeout, from the start of the build until the first replica is started.",
  ),
  SLIPWAY_BUILDS_AT_ONCE: integer("2", 1, 64).about(
    "How many builds run at the same time; builds that only wait for their app to start do not count. With two or more, the projects of one owner leave one slot to those of others, once there are other owners.",
  ),
  SLIPWAY_RELEASES_KEPT: integer("10", 1, 1000).about(
    "How many releases of an app that took calls can be started again, the live one included: a rollback needs no build. What older ones were made of is deleted.",
  ),
  SLIPWAY_STORAGE_LIMIT_GB: integer(null, 1, 1_000_000).about(
    "Maximum size of a project's /persistent-storage, in GB: uploads beyond it are refused, and replicas that exceed it and keep growing it are ended. A project may set a lower one. Default: no limit except the reserved disk space.",
  ),
  SLIPWAY_REPLICA_DISK_GB: integer(null, 1, 1_000_000).about(
    "Maximum disk space that the files of one replica (those that it adds to its code folder, its home folder and /tmp) or of one build may take, in GB; one that takes more is ended. Default: no limit except the reserved disk space.",
  ),
  SLIPWAY_DISK_RESERVE_MB: integer(null, 16, 1_000_000).about(
    "Disk space reserved for the platform, in MB, half of it as a file in the data folder. With less free space, nothing is built, and replicas and builds that fill the disk are ended. Default: 5 % of the disk, at most 2000.",
  ),
  SLIPWAY_LINE_LENGTH: integer("1000", 1, 1_000_000).about(
    "Queue length: how many calls of one app may wait for a replica; further calls are answered 503.",
  ),
  SLIPWAY_BODY_LIMIT_MB: integer("512", 1, 100_000).about(
    "Maximum body size of a call to an app, in MB; larger bodies are answered 413.",
  ),
  SLIPWAY_ASYNC_BODY_LIMIT_MB: integer("16", 1, 256).about(
    "Maximum body size of a call with async=true, in MiB; the body is kept until it has run. Larger bodies are answered 413.",
  ),
  SLIPWAY_RESULT_LIMIT_MB: integer("16", 1, 256).about(
    "Maximum size of an async run's answer that is kept, or of an answer sent to a webhook, in MiB.",
  ),
  SLIPWAY_RESULT_RETENTION_DAYS: integer("7", 1, 3650).about(
    "How long results of async runs, and requests of failed ones, are kept, in days.",
  ),
  SLIPWAY_RUN_RETENTION_DAYS: integer("30", 1, 3650).about(
    "How long runs and webhook deliveries are listed, in days.",
  ),
  SLIPWAY_CALL_RETENTION_DAYS: integer("30", 1, 3650).about(
    "How long plain calls are listed, in days.",
  ),
  SLIPWAY_CALL_RECORDS_PER_MINUTE: integer("60", 0, 1_000_000).about(
    "How many successful plain calls of an app are listed per minute: the first ones of the minute; the others are only counted. A listed call takes about 0.7 kB in the database. Failed calls and async runs are always listed, and charts and bills include every call.",
  ),
  SLIPWAY_RUNS_AT_ONCE: integer("2000", 10, 100_000).about(
    "How many async runs wait for a replica or run at the same time; all others wait in the database.",
  ),
  SLIPWAY_WEBHOOKS_AT_ONCE: integer("256", 1, 10_000).about(
    "How many webhook deliveries are in progress at the same time.",
  ),
  SLIPWAY_PROJECTS_PER_PERSON: integer("20", 1, 10_000).about(
    "How many projects one person may own when creating another; more are answered 409. Who owns more already keeps them.",
  ),
  SLIPWAY_DEPLOYS_PER_MINUTE: integer("60", 1, 100_000).about(
    "Rate limit: how many apps a project may create per minute; more are answered 429.",
  ),
  SLIPWAY_REQUESTS_PER_MINUTE: integer("6000", 1, 1_000_000).about(
    "Rate limit: how many requests to the management API one token or person may send per minute; more are answered 429. Calls of apps are not counted.",
  ),
  SLIPWAY_PRICES_FILE: text(null).about(
    "TOML file with the price per second of each compute type, core and GB, by pool and valid-from time, and of storage; default: built-in prices.",
  ),
  SLIPWAY_METERING_SECONDS: integer("60", 1, 3600).about(
    "How often usage is metered; it appears in the ledger after at most ten times this interval. Storage is measured at every tenth time.",
  ),
  SLIPWAY_PLANS_FILE: text(null).about(
    "TOML file with the plans that projects can have; default: one plan, self-hosted, without limits.",
  ),
  SLIPWAY_FAILED_TOKENS_PER_MINUTE: integer("100", 1, 1_000_000).about(
    "Rate limit: how many invalid tokens one address may send per minute; after that, unknown tokens are answered 429. Raise it if many clients share one address, as behind a proxy.",
  ),
  SLIPWAY_PROVIDERS: list("aws,crusoe,nebius,local").about(
    "Identifiers allowed in the field provider; without a pools file, this machine represents all of them.",
  ),
  SLIPWAY_POOLS_FILE: text(null).about(
    "TOML file with the pools that replicas run in: provider, region, cores, memory, GPUs and tier of each; default: one pool, this machine, for every provider and region.",
  ),
  SLIPWAY_OVERCOMMIT: integer("100", 1, 1000).about(
    "Overcommit factor: all replicas together may reserve this many times the CPU cores and the memory of this machine. GPUs are never shared. A pools file has its own factors.",
  ),
  SLIPWAY_SIMULATE_COMPUTE: boolean("false").about(
    "For development: apps that request a GPU or another accelerator that is not there run on the CPU.",
  ),
  SLIPWAY_LOG_RETENTION_DAYS: integer("30", 1, 3650).about(
    "How long logs of apps and builds are kept, in days.",
  ),
  SLIPWAY_AUDIT_RETENTION_DAYS: integer("365", 1, 3650).about(
    "How long audit log entries are kept and shown, in days.",
  ),
  SLIPWAY_AUDIT_FORWARD_URL: secret(null).about(
    "URL that new audit log entries of all projects are posted to, in batches; it may be on a private network.",
  ),
  SLIPWAY_AUDIT_FORWARD_SECRET: secret(null).about(
    "Secret that signs those batches: whsec_ and 24 to 64 bytes in base64; default: they are not signed.",
  ),
  SLIPWAY_SECRET_KEY: secret(null).about(
    "Key that encrypts secrets at rest: 64 hexadecimal digits. To rotate it, give several, separated by commas: the first encrypts, all decrypt. Default: generated once and kept in the data folder.",
  ),
  SLIPWAY_BACKUP_TO: text(null).about(
    "Folder that the platform backs itself up into, on a schedule: a path, relative to the folder in which the platform is started, or an address such as s3://bucket/slipway. Default: no scheduled backups.",
  ),
  SLIPWAY_BACKUP_HOURS: integer("24", 1, 720).about("Hours between two scheduled backups."),
  SLIPWAY_BACKUPS_KEPT: integer("14", 1, 10_000).about(
    "How many scheduled backups are kept; older ones are removed after a newer one has succeeded.",
  ),
  SLIPWAY_BACKUP_PUBLIC_KEYS: list("").about(
    "Public keys that backups are encrypted for, separated by commas; each begins with age1. The private key of one of them opens a backup. slipway backup --new-key makes a pair.",
  ),
  SLIPWAY_BACKUP_S3_ENDPOINT: url("https://s3.amazonaws.com").about(
    "URL of the object store that backups at s3:// addresses are kept in: any server that speaks S3.",
  ),
  SLIPWAY_BACKUP_S3_REGION: word("us-east-1").about(
    "Region of that object store; many servers take auto.",
  ),
  SLIPWAY_BACKUP_S3_ACCESS_KEY_ID: secret(null).about(
    "Access key id for that object store. It needs rights to write, read, list and delete objects.",
  ),
  SLIPWAY_BACKUP_S3_SECRET_ACCESS_KEY: secret(null).about(
    "Secret access key for that object store.",
  ),
  SLIPWAY_WEBHOOK_ALLOW: list("").about(
    "Private address ranges (CIDR, separated by commas) that the platform may call for users: webhooks, receivers of audit logs, statuses of commits, downloads from Git LFS.",
  ),
  SLIPWAY_SIGN_UP: choice("invited", ["invited", "open"]).about(
    "Who can create an account: only people who were invited to a project, or anyone who proves an email address.",
  ),
  SLIPWAY_SMTP_URL: secret(null).about(
    "Mail server for invitations and password reset links, as smtp://user:password@host:587 or smtps://…; default: no mail is sent.",
  ),
  SLIPWAY_MAIL_FROM: text(null).about(
    "Sender of the platform's mail, such as Slipway <slipway@example.org>; required with SLIPWAY_SMTP_URL.",
  ),
  SLIPWAY_OIDC_ISSUER: url(null).about(
    "Issuer of an OpenID Connect provider for single sign-on; its redirect URL is {public URL}/v2/auth/callback/oidc.",
  ),
  SLIPWAY_OIDC_CLIENT_ID: text(null).about("Client id of the platform at that provider."),
  SLIPWAY_OIDC_CLIENT_SECRET: secret(null).about("Client secret of the platform at that provider."),
  SLIPWAY_OIDC_NAME: text("Single sign-on").about("Label of the sign-in button for that provider."),
  SLIPWAY_GITHUB_CLIENT_ID: text(null).about(
    "Client id of a GitHub OAuth app for sign-in; its callback URL is {public URL}/v2/auth/callback/github.",
  ),
  SLIPWAY_GITHUB_CLIENT_SECRET: secret(null).about("Client secret of that OAuth app."),
  SLIPWAY_GITHUB_URL: url("https://github.com").about(
    "URL of GitHub: change it for GitHub Enterprise Server.",
  ),
  SLIPWAY_METRICS_ADDRESS: text(null).about(
    "Address and port that serve /metrics for Prometheus, such as 127.0.0.1:9464; an address that other machines can reach also needs a token; default: metrics are off.",
  ),
  SLIPWAY_METRICS_TOKEN: secret(null).about(
    "Bearer token that Prometheus must send: at least 16 letters, digits and -._~+/=; default: no token is needed at an IP address or localhost, and no other name is answered.",
  ),
  SLIPWAY_DRAIN_SECONDS: integer("30", 0, 43200).about(
    "How long running calls may continue after the platform was asked to stop.",
  ),
  SLIPWAY_HOLD_SECONDS: integer("0", 0, 600).about(
    "How long new connections wait for the next platform after this one has stopped, as when its container is replaced: the machine's firewall holds them back. 0: they are refused. This needs root, the program nft, and the machine's own network.",
  ),
  SLIPWAY_REPLICA_EXIT_SECONDS: integer("30", 1, 900).about(
    "How long a replica without running calls may take to exit after SIGTERM before it is killed; never longer than its app's responseGracePeriodSeconds.",
  ),
  SLIPWAY_REPLICA_PENDING_SECONDS: integer("600", 10, 86400).about(
    "How long a replica may wait for a machine or for its image before its start is abandoned. The time that its app has for becoming ready begins after that.",
  ),
  SLIPWAY_ZYGOTE_MEMORY_PERCENT: integer("0", 0, 50).about(
    "Share of the machine's memory for zygotes: processes that have imported a cortex app, from which its replicas start in milliseconds. The apps that were used last keep theirs. 0: each replica imports its app. Needs the process driver, as root.",
  ),
  SLIPWAY_LOG_LEVEL: choice("info", ["debug", "info", "warn", "error", "silent"]).about(
    "Minimum severity of messages in the platform's own log.",
  ),
  SLIPWAY_LOG_FORMAT: choice("auto", ["auto", "text", "json"]).about(
    "How the platform writes its own log: lines of text for people, or JSON for programs. With auto, text on a terminal and JSON elsewhere.",
  ),
} satisfies Record<string, Setting>;

export type PlatformSettingName = keyof typeof settingTable;

/** How settings that belong together are read from the environment. */
export type SettingReader = {
  /** Null: unset. */
  readonly text: (name: PlatformSettingName) => string | null;
  /** Throws `ConfigRefused` with this message. */
  readonly refuse: (why: string) => never;
};
