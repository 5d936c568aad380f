// The only reader of the environment. Parses every SLIPWAY_… variable through the table of
// settings, refuses unknown names and bad values, and returns one frozen object.
import { isIP } from "node:net";
import { join, resolve } from "node:path";
import { readAcme } from "./config-acme.ts";
import { readDnsServers } from "./config-dns.ts";
import { readAuditForward } from "./config-audit.ts";
import { readBackup } from "./config-backup.ts";
import { readMetrics } from "./config-metrics.ts";
import { readPeople } from "./config-people.ts";
import { readProxies } from "./config-proxies.ts";
import { readInheritedSocket } from "./config-socket.ts";
import { readTls } from "./config-tls.ts";
import { settingTable, type PlatformSettingName } from "./config-table.ts";
import { AppHosts } from "#lib/app-hosts.ts";
import { closestName } from "#lib/closest-name.ts";
import { Secret } from "#lib/secret.ts";
import { isToolVariable } from "#lib/tool-variables.ts";
import type { DriverName } from "#drivers/driver-table.ts";

/** All settings, parsed. Times in seconds where the name says so, sizes in bytes. */
export type Config = ReturnType<typeof readConfig>;

/**
 * The environment is invalid; the message names the variable, its value and what is allowed.
 */
export class ConfigRefused extends Error {
  override readonly name = "ConfigRefused";
}

/** Variables of the `slipway` command; they may also be set where a platform starts. */
const commandLineNames = new Set([
  "SLIPWAY_URL",
  "SLIPWAY_TOKEN",
  "SLIPWAY_PROJECT",
  "SLIPWAY_CONTAINER",
]);

type Environment = Readonly<Record<string, string | undefined>>;

/** Parses the environment. Throws `ConfigRefused` at the first error. */
export function readConfig(environment: Environment) {
  refuseUnknownNames(environment);
  // `text` is null only for a setting that is unset and has no default in the table. For others,
  // the values after `??` below are never used: they only satisfy the compiler.
  const text = (name: PlatformSettingName): string | null => rawValue(environment, name);
  const integer = (name: PlatformSettingName): number => parseInteger(name, text(name) ?? "");
  /** A size in bytes; null: unset. */
  const size = (name: PlatformSettingName, unit: number) =>
    text(name) === null ? null : integer(name) * unit;
  const databaseUrl = text("SLIPWAY_DATABASE_URL");
  const publicUrl = parseOptionalUrl("SLIPWAY_PUBLIC_URL", text("SLIPWAY_PUBLIC_URL"));
  const host = parseWord("SLIPWAY_HOST", text("SLIPWAY_HOST") ?? "127.0.0.1");
  return Object.freeze({
    host,
    port: integer("SLIPWAY_PORT"),
    inheritedSocket: readInheritedSocket({ environment, pid: process.pid, refuse }),
    /** Null: derived from host and port once the platform listens. No trailing slash. */
    publicUrl,
    /** Null: there is no HTTPS port. Paths are relative to the working directory. */
    tls: readTls({
      text,
      refuse,
      list: (name) => parseList(text(name)),
      port: integer("SLIPWAY_TLS_PORT"),
      hstsSeconds: integer("SLIPWAY_HSTS_SECONDS"),
      redirects: parseBoolean("SLIPWAY_REDIRECT_TO_HTTPS", text("SLIPWAY_REDIRECT_TO_HTTPS") ?? ""),
      publicUrl,
      acme: readAcme({
        text,
        refuse,
        url: (name) => parseOptionalUrl(name, text(name)),
        isAgreed: parseBoolean(
          "SLIPWAY_ACME_AGREE_TO_TERMS",
          text("SLIPWAY_ACME_AGREE_TO_TERMS") ?? "",
        ),
        challenge:
          parseChoice<"http-01" | "tls-alpn-01">(
            "SLIPWAY_ACME_CHALLENGE",
            text("SLIPWAY_ACME_CHALLENGE"),
          ) ?? "http-01",
        newNamesPerWeek: integer("SLIPWAY_CERTIFICATES_PER_WEEK"),
      }),
    }),
    announcements: announcementsOf(text),
    ...proxySettings(text, host),
    ...nameSettings(text),
    /** The data folder, as an absolute path. */
    dataDir: resolve(text("SLIPWAY_DATA_DIR") ?? ".slipway"),
    databaseUrl: databaseUrl === null ? null : new Secret(parseDatabaseUrl(databaseUrl)),
    databaseConnections: integer("SLIPWAY_DATABASE_CONNECTIONS"),
    driver: parseChoice<"auto" | DriverName>("SLIPWAY_DRIVER", text("SLIPWAY_DRIVER")) ?? "auto",
    appNetwork: appNetworkSettings(text),
    docker: dockerSettings(text, integer),
    ...gitSettings(text, integer),
    uploadSizeBytes: integer("SLIPWAY_UPLOAD_SIZE_MB") * 1e6,
    buildTimeoutSeconds: integer("SLIPWAY_BUILD_TIMEOUT_SECONDS"),
    buildsAtOnce: integer("SLIPWAY_BUILDS_AT_ONCE"),
    releasesKept: integer("SLIPWAY_RELEASES_KEPT"),
    /**
     * Disk limits, and the space to keep free; null: no limit, or derived from the size of the
     * disk.
     */
    disk: {
      replicaBytes: size("SLIPWAY_REPLICA_DISK_GB", 1e9),
      storageBytes: size("SLIPWAY_STORAGE_LIMIT_GB", 1e9),
      reserveBytes: size("SLIPWAY_DISK_RESERVE_MB", 1e6),
    },
    lineLength: integer("SLIPWAY_LINE_LENGTH"),
    bodyLimitBytes: integer("SLIPWAY_BODY_LIMIT_MB") * 1_000_000,
    /** This limit and the next one are documented in MiB, all other sizes in MB or GB. */
    asyncBodyBytesMax: integer("SLIPWAY_ASYNC_BODY_LIMIT_MB") * 1_048_576,
    resultBytesMax: integer("SLIPWAY_RESULT_LIMIT_MB") * 1_048_576,
    resultRetentionDays: integer("SLIPWAY_RESULT_RETENTION_DAYS"),
    runRetentionDays: integer("SLIPWAY_RUN_RETENTION_DAYS"),
    callRetentionDays: integer("SLIPWAY_CALL_RETENTION_DAYS"),
    callRecordsPerMinute: integer("SLIPWAY_CALL_RECORDS_PER_MINUTE"),
    runsAtOnce: integer("SLIPWAY_RUNS_AT_ONCE"),
    webhooksAtOnce: integer("SLIPWAY_WEBHOOKS_AT_ONCE"),
    ...limitSettings(integer),
    /** Relative to the working directory of the platform, as are `pricesFile` and `poolsFile`. */
    plansFile: text("SLIPWAY_PLANS_FILE"),
    pricesFile: text("SLIPWAY_PRICES_FILE"),
    meteringSeconds: integer("SLIPWAY_METERING_SECONDS"),
    providers: parseList(text("SLIPWAY_PROVIDERS")),
    poolsFile: text("SLIPWAY_POOLS_FILE"),
    overcommit: integer("SLIPWAY_OVERCOMMIT"),
    simulateCompute: parseBoolean(
      "SLIPWAY_SIMULATE_COMPUTE",
      text("SLIPWAY_SIMULATE_COMPUTE") ?? "",
    ),
    logRetentionDays: integer("SLIPWAY_LOG_RETENTION_DAYS"),
    auditRetentionDays: integer("SLIPWAY_AUDIT_RETENTION_DAYS"),
    auditForward: readAuditForward({ text, refuse }),
    /** Null: stored in a file of the data folder. */
    secretKeys: parseSecretKeys(text("SLIPWAY_SECRET_KEY")),
    backup: readBackup({ text, refuse, url: (name) => parseOptionalUrl(name, text(name)) }),
    backupHours: integer("SLIPWAY_BACKUP_HOURS"),
    backupsKept: integer("SLIPWAY_BACKUPS_KEPT"),
    webhookAllow: parseList(text("SLIPWAY_WEBHOOK_ALLOW")),
    people: readPeople({ text, refuse, url: (name) => parseOptionalUrl(name, text(name)) }),
    metrics: readMetrics({ text, refuse }),
    drainSeconds: integer("SLIPWAY_DRAIN_SECONDS"),
    /** 0: new connections are refused while no platform runs. */
    holdSeconds: integer("SLIPWAY_HOLD_SECONDS"),
    replicaExitSeconds: integer("SLIPWAY_REPLICA_EXIT_SECONDS"),
    replicaPendingSeconds: integer("SLIPWAY_REPLICA_PENDING_SECONDS"),
    zygoteMemoryPercent: integer("SLIPWAY_ZYGOTE_MEMORY_PERCENT"),
    logLevel: parseChoice("SLIPWAY_LOG_LEVEL", text("SLIPWAY_LOG_LEVEL")) ?? "info",
    logFormat:
      parseChoice<"auto" | "text" | "json">("SLIPWAY_LOG_FORMAT", text("SLIPWAY_LOG_FORMAT")) ??
      "auto",
    /**
     * The environment passed to programs that the platform starts (git, pip): PATH, proxies,
     * package indexes, certificates.
     */
    toolEnvironment: Object.freeze(toolEnvironmentOf(environment)),
  });
}

function nameSettings(text: Read<string | null>) {
  return {
    /** The host names of apps. */
    appHosts: new AppHosts(parseDomain(chosenDomain(text), text("SLIPWAY_PUBLIC_URL"))),
    /** The name servers that are asked for proofs of domains; empty: those of the machine. */
    dnsServers: readDnsServers("SLIPWAY_DNS_SERVERS", { text, refuse }),
  };
}

function limitSettings(integer: Read<number>) {
  return {
    projectsPerPerson: integer("SLIPWAY_PROJECTS_PER_PERSON"),
    deploysPerMinute: integer("SLIPWAY_DEPLOYS_PER_MINUTE"),
    requestsPerMinute: integer("SLIPWAY_REQUESTS_PER_MINUTE"),
    failedTokensPerMinute: integer("SLIPWAY_FAILED_TOKENS_PER_MINUTE"),
  };
}

function refuseUnknownNames(environment: Environment): void {
  for (const name of Object.keys(environment)) {
    if (!name.startsWith("SLIPWAY_") || Object.hasOwn(settingTable, name)) continue;
    // SLIPWAY_TEST_… variables connect the test runner with test files; a platform started by a
    // test may inherit them.
    if (name.startsWith("SLIPWAY_TEST_") || commandLineNames.has(name)) continue;
    const close = closestName(name, Object.keys(settingTable));
    const hint = close === undefined ? "." : `; did you mean ${close}?`;
    throw new ConfigRefused(`${name} is not a setting${hint} See --help for all of them.`);
  }
}

function refuse(why: string): never {
  throw new ConfigRefused(why);
}

type Read<Value> = (name: PlatformSettingName) => Value;

function proxySettings(text: Read<string | null>, host: string) {
  return readProxies({
    refuse,
    host,
    ranges: parseRanges("SLIPWAY_TRUSTED_PROXIES", text("SLIPWAY_TRUSTED_PROXIES")),
    proxyProtocol: parseBoolean("SLIPWAY_PROXY_PROTOCOL", text("SLIPWAY_PROXY_PROTOCOL") ?? ""),
  });
}

function appNetworkSettings(text: Read<string | null>) {
  return {
    mode:
      parseChoice<"auto" | "own" | "shared">("SLIPWAY_APP_NETWORK", text("SLIPWAY_APP_NETWORK")) ??
      "auto",
    allowed: parseRanges("SLIPWAY_APP_NETWORK_ALLOW", text("SLIPWAY_APP_NETWORK_ALLOW"), 4),
    nameServers: parseNameServers(text("SLIPWAY_APP_NAME_SERVERS")),
  };
}

function dockerSettings(text: Read<string | null>, integer: Read<number>) {
  const name = text("SLIPWAY_IMAGE_REGISTRY");
  const auth = text("SLIPWAY_IMAGE_REGISTRY_AUTH");
  if (name === null && auth !== null)
    refuse("SLIPWAY_IMAGE_REGISTRY_AUTH needs SLIPWAY_IMAGE_REGISTRY.");
  const secretAuth = auth === null ? null : new Secret(auth);
  return {
    host: text("SLIPWAY_DOCKER_HOST") ?? "",
    cacheBytes: integer("SLIPWAY_DOCKER_CACHE_GB") * 1e9,
    runtimes: {
      v1: parseWord("SLIPWAY_RUNTIME_V1", text("SLIPWAY_RUNTIME_V1") ?? ""),
      v2: parseWord("SLIPWAY_RUNTIME_V2", text("SLIPWAY_RUNTIME_V2") ?? ""),
    },
    areBuildsClosed:
      parseChoice("SLIPWAY_DOCKER_BUILD_NETWORK", text("SLIPWAY_DOCKER_BUILD_NETWORK")) ===
      "closed",
    registry: name === null ? null : { name, auth: secretAuth },
    moreRegistries: parseRegistries(text("SLIPWAY_DOCKER_REGISTRIES")),
  };
}

/** Paths inside the data folder. Each belongs to one area. */
export function dataPaths(dataDir: string) {
  return {
    bootstrapFile: join(dataDir, "bootstrap.json"),
    secretKeyFile: join(dataDir, "secret.key"),
    /** The name of the driver that runs the apps. */
    driverFile: join(dataDir, "driver"),
    lockFile: join(dataDir, "slipway.lock"),
    /** How `slipway restart` wants the next platform to be started. */
    successorFile: join(dataDir, "successor.json"),
    postgresDir: join(dataDir, "postgres"),
    /** Clones while a build runs, and checkouts that are kept for the next builds. */
    sourcesDir: join(dataDir, "sources"),
    /** Zips of deployments by upload. */
    uploadsDir: join(dataDir, "uploads"),
    /** Artifacts and caches of the process driver. */
    buildsDir: join(dataDir, "builds"),
    replicasDir: join(dataDir, "replicas"),
    /** The ends and the last lines of replicas that ended while no platform ran. */
    endsFile: join(dataDir, "ended-replicas"),
    /** Files of the Docker driver that are not in the engine. */
    containersDir: join(dataDir, "containers"),
    /** Persistent storage of apps: one folder per project. */
    storageDir: join(dataDir, "storage"),
  } as const;
}

function rawValue(environment: Environment, name: PlatformSettingName): string | null {
  const value = environment[name];
  return value === undefined || value === "" ? settingTable[name].default : value;
}

function parseInteger(name: PlatformSettingName, value: string): number {
  const { min = 0, max = Number.MAX_SAFE_INTEGER } = settingTable[name];
  // A number in JavaScript is exact up to 15 digits.
  const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
  // No range has NaN, so it is refused too.
  const isInRange = number >= min && number <= max;
  if (!isInRange) {
    throw new ConfigRefused(
      `${name} is "${value}", but must be a whole number from ${min} to ${max}.`,
    );
  }
  return number;
}

function parseWord(name: PlatformSettingName, value: string): string {
  if (/^[^\s/]+$/.test(value)) return value;
  throw new ConfigRefused(
    `${name} is "${value}", but must be one word without spaces and slashes.`,
  );
}

function parseBoolean(name: PlatformSettingName, value: string): boolean {
  if (value === "true" || value === "1") return true;
  if (value === "false" || value === "0") return false;
  throw new ConfigRefused(`${name} is "${value}", but must be true or false.`);
}

/** Parses a value of kind "choice"; the type `Choice` must be that of the row's choices. */
function parseChoice<Choice extends string>(
  name: PlatformSettingName,
  value: string | null,
): Choice | null {
  const { choices = [] } = settingTable[name];
  if (value === null || choices.includes(value)) return value as Choice | null;
  throw new ConfigRefused(`${name} is "${value}", but must be one of ${choices.join(", ")}.`);
}

function parseList(value: string | null): readonly string[] {
  return (value ?? "")
    .split(",")
    .map((part) => part.trim())
    .filter((part) => part !== "");
}

/**
 * Parses names of registries. Each is `*` alone, or a host name with an optional port, in which `*`
 * may stand for a part of the name.
 */
function parseRegistries(value: string | null): readonly string[] {
  const wrong = parseList(value).find(
    (registry) => registry !== "*" && !/^[\w*-]+(?:\.[\w*-]+)*(?::\d{1,5})?$/.test(registry),
  );
  if (wrong !== undefined) {
    refuse(
      `SLIPWAY_DOCKER_REGISTRIES must be names of registries, separated by commas, such as registry.example.com:5000, *.example.com or *, but one is ${wrong}.`,
    );
  }
  return parseList(value);
}

/** Parses a list of addresses and ranges; `version` 4 allows only IPv4. */
function parseRanges(
  name: PlatformSettingName,
  value: string | null,
  version?: 4,
): readonly string[] {
  return parseList(value).map((range) => {
    const [address = "", bits, ...rest] = range.split("/");
    const bitsMax = isIP(address) === 6 ? 128 : 32;
    const isRange = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= bitsMax);
    const isAddress = version === undefined ? isIP(address) !== 0 : isIP(address) === version;
    if (isAddress && isRange && rest.length === 0) return range;
    const kind = version === undefined ? "" : "IPv4 ";
    throw new ConfigRefused(
      `${name} has "${range}", but must contain ${kind}addresses and ranges such as 10.0.0.0/8.`,
    );
  });
}

function parseNameServers(value: string | null): readonly string[] {
  return parseList(value).map((server) => {
    if (isIP(server) === 4) return server;
    throw new ConfigRefused(
      `SLIPWAY_APP_NAME_SERVERS has "${server}", but must contain IPv4 addresses such as 9.9.9.9.`,
    );
  });
}

/**
 * The value of SLIPWAY_DOMAIN, or of its older name, which some installations still set. Null:
 * neither is set.
 */
function chosenDomain(text: Read<string | null>): string | null {
  const domain = text("SLIPWAY_DOMAIN");
  const older = text("SLIPWAY_APP_PAGES_HOST");
  if (domain !== null && older !== null && domain.toLowerCase() !== older.toLowerCase()) {
    throw new ConfigRefused(
      `SLIPWAY_DOMAIN is "${domain}" and SLIPWAY_APP_PAGES_HOST, its older name, "${older}"; set only SLIPWAY_DOMAIN.`,
    );
  }
  return domain ?? older;
}

/**
 * The name below which apps have their host names, without a port. It must be neither the
 * dashboard's name nor a name above it, because pages of apps could then set cookies for the
 * dashboard; `localhost` is allowed, because browsers refuse such cookies there.
 */
function parseDomain(value: string | null, publicUrl: string | null): string {
  const host = (value ?? "localhost").toLowerCase();
  // 207 characters at most, so that the label of an app and its dot fit into the 253 of a name.
  const isName = /^[a-z0-9](?:[a-z0-9.-]{0,205}[a-z0-9])?$/.test(host) && isIP(host) === 0;
  // The leading dot lets one comparison find both the dashboard's name itself and names above it.
  const dashboard = publicUrl === null ? "" : `.${URL.parse(publicUrl)?.hostname}`;
  if (isName && (host === "localhost" || !dashboard.endsWith(`.${host}`))) return host;
  const text =
    "must be a host name without a port, and neither that of SLIPWAY_PUBLIC_URL nor one above it";
  throw new ConfigRefused(`SLIPWAY_DOMAIN is "${value}", but ${text}.`);
}

function parseUrl(name: PlatformSettingName, value: string): string {
  const url = URL.parse(value);
  if (
    url === null ||
    !/^https?:$/.test(url.protocol) ||
    url.username !== "" ||
    url.search !== "" ||
    url.hash !== ""
  ) {
    // A value with an @ may contain a password.
    const shown = value.includes("@") ? "not usable (its value is not shown)" : `"${value}"`;
    throw new ConfigRefused(
      `${name} is ${shown}, but must be an http or https URL without user, query and fragment.`,
    );
  }
  return value.replace(/\/+$/, "");
}

function parseOptionalUrl(name: PlatformSettingName, value: string | null): string | null {
  return value === null ? null : parseUrl(name, value);
}

function parseDatabaseUrl(value: string): string {
  if (!/^postgres(ql)?:\/\//.test(value)) {
    throw new ConfigRefused(
      "SLIPWAY_DATABASE_URL must start with postgres:// or postgresql:// (its value is not shown).",
    );
  }
  return value;
}

function gitSettings(text: Read<string | null>, integer: Read<number>) {
  return {
    gitHosts: {
      defaultUrl: parseGitUrl("SLIPWAY_GIT_URL", text("SLIPWAY_GIT_URL") ?? ""),
      otherUrls: parseList(text("SLIPWAY_GIT_HOSTS")).map(parseGitHost),
    },
    gitTimeoutSeconds: integer("SLIPWAY_GIT_TIMEOUT_SECONDS"),
    gitPollSeconds: integer("SLIPWAY_GIT_POLL_SECONDS"),
    gitSizeBytes: integer("SLIPWAY_GIT_SIZE_MB") * 1e6,
  };
}

function announcementsOf(text: Read<string | null>) {
  const message = text("SLIPWAY_ANNOUNCEMENT");
  const link = parseOptionalUrl("SLIPWAY_ANNOUNCEMENT_LINK", text("SLIPWAY_ANNOUNCEMENT_LINK"));
  if (message === null) return [];
  return [{ message, link: link ?? "", linkText: link === null ? "" : "Read more" }];
}

function parseGitUrl(name: PlatformSettingName, value: string): string {
  const isTemplate =
    /^(https?|ssh|file):\/\//.test(value) && value.includes("{owner}") && value.includes("{repo}");
  // Refuses a password: text after a colon, before an @, in front of the host.
  if (isTemplate && !/^\w+:\/\/[^/]*:[^/]*@/.test(value)) return value;
  throw new ConfigRefused(
    `${name} must start with http://, https://, ssh:// or file://, contain {owner} and {repo}, and contain no password.`,
  );
}

/** The URL template of a host; `value` is a template, or only the name of the host. */
function parseGitHost(value: string): string {
  // Only the template of SLIPWAY_GIT_URL may start with file://.
  if (value.includes("{") && !value.startsWith("file:"))
    return parseGitUrl("SLIPWAY_GIT_HOSTS", value);
  if (/^[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?$/i.test(value))
    return `https://${value.toLowerCase()}/{owner}/{repo}.git`;
  throw new ConfigRefused(
    "SLIPWAY_GIT_HOSTS must be names of hosts, such as gitlab.com, or URL templates with {owner} and {repo} that start with http://, https:// or ssh://.",
  );
}

function parseSecretKeys(value: string | null): readonly Secret[] | null {
  if (value === null) return null;
  const keys = parseList(value);
  if (keys.length === 0 || keys.some((key) => !/^[0-9a-f]{64}$/i.test(key))) {
    throw new ConfigRefused(
      "SLIPWAY_SECRET_KEY must be 64 hexadecimal digits, or several such keys separated by commas (its value is not shown).",
    );
  }
  return keys.map((key) => new Secret(key));
}

/** The variables that git, pip, uv and builds get. */
export function toolEnvironmentOf(environment: Environment): Readonly<Record<string, string>> {
  // NaN when the variable is unset or not a number.
  const waitSeconds = Math.ceil(Number(environment["PIP_DEFAULT_TIMEOUT"]));
  const picked: Record<string, string> = {
    // uv gives up on a failing index sooner than pip, and has its own variable for the timeout, in
    // whole seconds. If the operator has set either variable, the loop below replaces the value.
    UV_HTTP_RETRIES: "5",
    ...(waitSeconds > 0 ? { UV_HTTP_TIMEOUT: String(waitSeconds) } : {}),
  };
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && isToolVariable(name)) picked[name] = value;
  }
  return picked;
}
