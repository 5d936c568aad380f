// The only reader of the environment. Parses every SLIPWAY_… variable through the table of settings, refuses unknown names
// and bad values, and returns one frozen object.
import { isIP } from "node:net";
import { join, resolve } from "node:path";
import { readAuditForward, type AuditForwardConfig } from "./config-audit.ts";
import { readMetrics, type MetricsConfig } from "./config-metrics.ts";
import { readPeople, type PeopleConfig } from "./config-people.ts";
import { settingTable, type Setting, type PlatformSettingName } from "./config-table.ts";
import { closestName } from "#lib/closest-name.ts";
import { Secret } from "#lib/secret.ts";
import { TrustedProxies } from "#lib/trusted-proxies.ts";

/** All settings, parsed. Times in seconds where the name says so, sizes in bytes. */
export type Config = {
  readonly host: string;
  readonly port: number;
  /** Null: derived from host and port once the platform listens. No trailing slash. */
  readonly publicUrl: string | null;
  readonly trustedProxies: TrustedProxies;
  /** In lower case. */
  readonly appPagesHost: string | null;
  /** Absolute. */
  readonly dataDir: string;
  readonly databaseUrl: Secret | null;
  readonly databaseConnections: number;
  /** Null: chosen at start. */
  readonly driver: "process" | "docker" | "kubernetes" | null;
  /** Networks of apps that the process driver runs. */
  readonly appNetwork: {
    readonly mode: "auto" | "own" | "shared";
    readonly allowed: readonly string[];
    readonly nameServers: readonly string[];
  };
  readonly gitUrl: string;
  readonly gitTimeoutSeconds: number;
  readonly gitPollSeconds: number;
  readonly gitSizeBytes: number;
  readonly buildTimeoutSeconds: number;
  readonly buildsAtOnce: number;
  readonly releasesKept: number;
  /** Disk limits, and the space to keep free; null: no limit, or derived from the size of the disk. */
  readonly disk: Readonly<Record<"replicaBytes" | "storageBytes" | "reserveBytes", number | null>>;
  readonly lineLength: number;
  readonly bodyLimitBytes: number;
  readonly asyncBodyBytesMax: number;
  readonly resultBytesMax: number;
  readonly resultRetentionDays: number;
  readonly runRetentionDays: number;
  readonly runsAtOnce: number;
  readonly webhooksAtOnce: number;
  readonly deploysPerMinute: number;
  readonly failedTokensPerMinute: number;
  /** Relative to the working directory of the platform. */
  readonly plansFile: string | null;
  readonly pricesFile: string | null;
  readonly meteringSeconds: number;
  readonly providers: readonly string[];
  readonly simulateCompute: boolean;
  readonly logRetentionDays: number;
  readonly auditRetentionDays: number;
  readonly auditForward: AuditForwardConfig | null;
  /** Null: stored in a file of the data folder. */
  readonly secretKeys: readonly Secret[] | null;
  readonly webhookAllow: readonly string[];
  readonly people: PeopleConfig;
  readonly metrics: MetricsConfig | null;
  readonly drainSeconds: number;
  readonly replicaExitSeconds: number;
  readonly logLevel: string;
  /** The environment passed to programs that the platform starts (git, pip): PATH, proxies, package indexes, certificates. */
  readonly toolEnvironment: Readonly<Record<string, string>>;
};

/** The environment is invalid; the message names the variable, the given value and what is allowed. */
export class ConfigRefused extends Error {
  override readonly name = "ConfigRefused";
}

/** Variables that are not ours but are passed to git, pip and builds: locations of tools, certificates and package indexes. */
const toolVariables = [
  /^(PATH|LANG|LC_[A-Z]+|TZ|TMPDIR)$/,
  /^(HTTPS?|NO|ALL)_PROXY$/i,
  /^(PIP|UV)_[A-Z0-9_]+$/,
  /^(SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|GIT_SSL_CAINFO)$/,
  /^PYENV_ROOT$/,
];

/** Variables of the command line; they may also be set where a platform starts. */
const ofCommandLine = new Set(["SLIPWAY_URL", "SLIPWAY_TOKEN", "SLIPWAY_PROJECT"]);

type Environment = Readonly<Record<string, string | undefined>>;

/** Parses the environment. Throws `ConfigRefused` at the first error. */
export function readConfig(environment: Environment): Config {
  for (const name of Object.keys(environment)) {
    // SLIPWAY_TEST_… variables connect the test runner with test files; a platform started by a test may inherit them.
    if (!name.startsWith("SLIPWAY_") || name.startsWith("SLIPWAY_TEST_") || Object.hasOwn(settingTable, name)) continue;
    if (ofCommandLine.has(name)) continue;
    const close = closestName(name, Object.keys(settingTable));
    throw new ConfigRefused(
      `${name} is not a setting${close ? `; did you mean ${close}?` : "."} See --help for all of them.`,
    );
  }
  const text = (name: PlatformSettingName): string | null => rawValue(environment, name);
  const integer = (name: PlatformSettingName): number => parseInteger(name, text(name) ?? "");
  const size = (name: PlatformSettingName, unit: number): number | null =>
    text(name) === null ? null : integer(name) * unit;
  const databaseUrl = text("SLIPWAY_DATABASE_URL");
  return Object.freeze<Config>({
    host: parseWord("SLIPWAY_HOST", text("SLIPWAY_HOST") ?? "127.0.0.1"),
    port: integer("SLIPWAY_PORT"),
    publicUrl: parseOptionalUrl("SLIPWAY_PUBLIC_URL", text("SLIPWAY_PUBLIC_URL")),
    trustedProxies: new TrustedProxies(parseRanges("SLIPWAY_TRUSTED_PROXIES", text("SLIPWAY_TRUSTED_PROXIES"))),
    appPagesHost: parsePagesHost(text("SLIPWAY_APP_PAGES_HOST"), text("SLIPWAY_PUBLIC_URL")),
    dataDir: resolve(text("SLIPWAY_DATA_DIR") ?? ".slipway"),
    databaseUrl: databaseUrl === null ? null : new Secret(parseDatabaseUrl(databaseUrl)),
    databaseConnections: integer("SLIPWAY_DATABASE_CONNECTIONS"),
    driver: parseChoice("SLIPWAY_DRIVER", text("SLIPWAY_DRIVER")) as Config["driver"],
    appNetwork: {
      mode: parseChoice("SLIPWAY_APP_NETWORK", text("SLIPWAY_APP_NETWORK")) as Config["appNetwork"]["mode"],
      allowed: parseRanges("SLIPWAY_APP_NETWORK_ALLOW", text("SLIPWAY_APP_NETWORK_ALLOW"), 4),
      nameServers: parseNameServers(text("SLIPWAY_APP_NAME_SERVERS")),
    },
    gitUrl: parseGitUrl(text("SLIPWAY_GIT_URL") ?? ""),
    gitTimeoutSeconds: integer("SLIPWAY_GIT_TIMEOUT_SECONDS"),
    gitPollSeconds: integer("SLIPWAY_GIT_POLL_SECONDS"),
    gitSizeBytes: integer("SLIPWAY_GIT_SIZE_MB") * 1_000_000,
    buildTimeoutSeconds: integer("SLIPWAY_BUILD_TIMEOUT_SECONDS"),
    buildsAtOnce: integer("SLIPWAY_BUILDS_AT_ONCE"),
    releasesKept: integer("SLIPWAY_RELEASES_KEPT"),
    disk: {
      replicaBytes: size("SLIPWAY_REPLICA_DISK_GB", 1e9),
      storageBytes: size("SLIPWAY_STORAGE_LIMIT_GB", 1e9),
      reserveBytes: size("SLIPWAY_DISK_RESERVE_MB", 1e6),
    },
    lineLength: integer("SLIPWAY_LINE_LENGTH"),
    bodyLimitBytes: integer("SLIPWAY_BODY_LIMIT_MB") * 1_000_000,
    asyncBodyBytesMax: integer("SLIPWAY_ASYNC_BODY_LIMIT_MB") * 1_048_576,
    resultBytesMax: integer("SLIPWAY_RESULT_LIMIT_MB") * 1_048_576,
    resultRetentionDays: integer("SLIPWAY_RESULT_RETENTION_DAYS"),
    runRetentionDays: integer("SLIPWAY_RUN_RETENTION_DAYS"),
    runsAtOnce: integer("SLIPWAY_RUNS_AT_ONCE"),
    webhooksAtOnce: integer("SLIPWAY_WEBHOOKS_AT_ONCE"),
    deploysPerMinute: integer("SLIPWAY_DEPLOYS_PER_MINUTE"),
    failedTokensPerMinute: integer("SLIPWAY_FAILED_TOKENS_PER_MINUTE"),
    plansFile: text("SLIPWAY_PLANS_FILE"),
    pricesFile: text("SLIPWAY_PRICES_FILE"),
    meteringSeconds: integer("SLIPWAY_METERING_SECONDS"),
    providers: parseList(text("SLIPWAY_PROVIDERS")),
    simulateCompute: parseBoolean("SLIPWAY_SIMULATE_COMPUTE", text("SLIPWAY_SIMULATE_COMPUTE") ?? ""),
    logRetentionDays: integer("SLIPWAY_LOG_RETENTION_DAYS"),
    auditRetentionDays: integer("SLIPWAY_AUDIT_RETENTION_DAYS"),
    auditForward: readAuditForward({ text, refuse }),
    secretKeys: parseSecretKeys(text("SLIPWAY_SECRET_KEY")),
    webhookAllow: parseList(text("SLIPWAY_WEBHOOK_ALLOW")),
    people: readPeople({ text, refuse, url: (name) => parseOptionalUrl(name, text(name)) }),
    metrics: readMetrics({ text, refuse }),
    drainSeconds: integer("SLIPWAY_DRAIN_SECONDS"),
    replicaExitSeconds: integer("SLIPWAY_REPLICA_EXIT_SECONDS"),
    logLevel: parseChoice("SLIPWAY_LOG_LEVEL", text("SLIPWAY_LOG_LEVEL")) ?? "info",
    toolEnvironment: Object.freeze(pickToolEnvironment(environment)),
  });
}

function refuse(why: string): never {
  throw new ConfigRefused(why);
}

/** Paths inside the data folder. Each area owns one. */
export function dataPaths(dataDir: string) {
  return {
    bootstrapFile: join(dataDir, "bootstrap.json"),
    secretKeyFile: join(dataDir, "secret.key"),
    lockFile: join(dataDir, "slipway.lock"),
    postgresDir: join(dataDir, "postgres"),
    /** Clones while a build runs. */
    sourcesDir: join(dataDir, "sources"),
    /** Artifacts and caches of the process driver. */
    buildsDir: join(dataDir, "builds"),
    replicasDir: join(dataDir, "replicas"),
    /** Persistent storage of apps: one folder per project. */
    storageDir: join(dataDir, "storage"),
  } as const;
}

function rawValue(environment: Environment, name: PlatformSettingName): string | null {
  const given = environment[name];
  return given === undefined || given === "" ? settingTable[name].default : given;
}

function parseInteger(name: PlatformSettingName, given: string): number {
  const { min = 0, max = Number.MAX_SAFE_INTEGER }: Setting = settingTable[name];
  const value = /^\d{1,15}$/.test(given) ? Number(given) : Number.NaN;
  if (!(value >= min && value <= max)) {
    throw new ConfigRefused(`${name} is "${given}", but must be a whole number from ${min} to ${max}.`);
  }
  return value;
}

function parseWord(name: PlatformSettingName, given: string): string {
  if (/^[^\s/]+$/.test(given)) return given;
  throw new ConfigRefused(`${name} is "${given}", but must be one word without spaces and slashes.`);
}

function parseBoolean(name: PlatformSettingName, given: string): boolean {
  if (given === "true" || given === "1") return true;
  if (given === "false" || given === "0") return false;
  throw new ConfigRefused(`${name} is "${given}", but must be true or false.`);
}

function parseChoice(name: PlatformSettingName, given: string | null): string | null {
  const { choices = [] }: Setting = settingTable[name];
  if (given === null || choices.includes(given)) return given;
  throw new ConfigRefused(`${name} is "${given}", but must be one of ${choices.join(", ")}.`);
}

function parseList(given: string | null): string[] {
  return (given ?? "")
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

/** `version` 4: allow only IPv4. */
function parseRanges(name: PlatformSettingName, given: string | null, version?: 4): string[] {
  return parseList(given).map((range) => {
    const [address = "", bits, ...rest] = range.split("/");
    const bitsMax = isIP(address) === 6 ? 128 : 32;
    const isRange = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= bitsMax);
    const isAddress = version === undefined ? isIP(address) !== 0 : isIP(address) === version;
    if (isAddress && isRange && rest.length === 0) return range;
    const kind = version === undefined ? "" : "IPv4 ";
    throw new ConfigRefused(`${name} has "${range}", but must contain ${kind}addresses and ranges such as 10.0.0.0/8.`);
  });
}

function parseNameServers(given: string | null): string[] {
  return parseList(given).map((server) => {
    if (isIP(server) === 4) return server;
    throw new ConfigRefused(
      `SLIPWAY_APP_NAME_SERVERS has "${server}", but must contain IPv4 addresses such as 9.9.9.9.`,
    );
  });
}

/** The host name for app pages, without a port; it must differ from the dashboard's, or it would protect nothing. */
function parsePagesHost(given: string | null, publicUrl: string | null): string | null {
  if (given === null) return null;
  const host = given.toLowerCase();
  const isName = /^[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?$/.test(host);
  if (isName && (publicUrl === null || URL.parse(publicUrl)?.hostname !== host)) return host;
  const text = "must be a host name without a port, and different from that of SLIPWAY_PUBLIC_URL";
  throw new ConfigRefused(`SLIPWAY_APP_PAGES_HOST is "${given}", but ${text}.`);
}

function parseUrl(name: PlatformSettingName, given: string): string {
  const url = URL.parse(given);
  if (url === null || !/^https?:$/.test(url.protocol) || url.username !== "" || url.search !== "" || url.hash !== "") {
    const shown = given.includes("@") ? "not usable (its value is not shown)" : `"${given}"`;
    throw new ConfigRefused(`${name} is ${shown}, but must be an http or https URL without user, query and fragment.`);
  }
  return given.replace(/\/+$/, "");
}

function parseOptionalUrl(name: PlatformSettingName, given: string | null): string | null {
  return given === null ? null : parseUrl(name, given);
}

function parseDatabaseUrl(given: string): string {
  if (!/^postgres(ql)?:\/\//.test(given)) {
    throw new ConfigRefused(
      "SLIPWAY_DATABASE_URL must start with postgres:// or postgresql:// (its value is not shown).",
    );
  }
  return given;
}

function parseGitUrl(given: string): string {
  const usable = /^(https?|ssh|file):\/\//.test(given) && given.includes("{owner}") && given.includes("{repo}");
  if (usable && !/^\w+:\/\/[^/]*:[^/]*@/.test(given)) return given;
  throw new ConfigRefused(
    `SLIPWAY_GIT_URL must start with http://, https://, ssh:// or file://, contain {owner} and {repo}, and contain no password.`,
  );
}

function parseSecretKeys(given: string | null): Secret[] | null {
  if (given === null) return null;
  const keys = parseList(given);
  if (keys.length === 0 || keys.some((key) => !/^[0-9a-f]{64}$/i.test(key))) {
    throw new ConfigRefused(
      "SLIPWAY_SECRET_KEY must be 64 hexadecimal digits, or several such keys separated by commas (its value is not shown).",
    );
  }
  return keys.map((key) => new Secret(key));
}

function pickToolEnvironment(environment: Environment): Record<string, string> {
  const picked: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && toolVariables.some((form) => form.test(name))) picked[name] = value;
  }
  return picked;
}
