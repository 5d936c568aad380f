// Examples of bodies and answers for the OpenAPI document. They are derived from JSON schemas; what
// a schema does not say (which name, which commit) comes from one table by name. A test validates
// each against its schema.
type Json = { readonly [name: string]: unknown };

const id = "019af3c2-7d41-7a5e-9b1f-2c8d4e6f8a10";
const appId = "p-4f1c09aa-hello";
const site = "https://slipway.example.com";
const token = "ZXhhbXBsZS10b2tlbg";

/** By the name of the property. A text goes where a schema says no more than that there is one. */
const byName: Json = {
  appId,
  app_id: appId,
  modelId: appId,
  projectId: "p-4f1c09aa",
  project_id: "p-4f1c09aa",
  projectName: "Shop",
  containerId: "hello-3f9a1c07be",
  containerName: "hello-3f9a1c07be",
  functionName: "predict",
  pool: "local",
  appUrl: `${site}/v4/p-4f1c09aa/hello`,
  internalEndpoint: `${site}/v4/p-4f1c09aa/hello`,
  pageUrl: "https://hello-p-4f1c09aa.apps.example.org/",
  corsHeaders: "X-Api-Version",
  corsOrigins: "https://shop.example.org",
  name: "hello",
  dashboardUrl: `${site}/dashboard/projects/p-4f1c09aa/apps/${appId}`,
  link: `${site}/dashboard/invitations/kX9fQ2`,
  logUrl: `${site}/v2/projects/p-4f1c09aa/apps/${appId}/builds/${id}/logs`,
  uploadUrl: `${site}/v2/uploads/hello.zip`,
  url: "https://example.com/hook",
  uri: "otpauth://totp/…",
  webhookEndpoint: "https://example.com/hook",
  verification_uri: `${site}/dashboard/device`,
  verification_uri_complete: `${site}/dashboard/device?code=BCDF-GHJK`,
  webhook_url: "https://example.com/hook",
  returnTo: "/dashboard/device",
  region: "us-east-1",
  provider: "aws",
  gitRepo: "acme/shop",
  gitBranch: "main",
  branch: "main",
  gitPath: "services/hello",
  host: "github.com",
  commit: "4f1c09aa5be1d3f2c7e8a9b0c1d2e3f4a5b6c7d8",
  commitMessage: "Answer faster",
  commitAuthor: "Ada Lovelace",
  config_toml: '[cerebrium.deployment]\nname = "hello"\n',
  cerebrium_toml: "[cerebrium.deployment]\n",
  email: "ada@example.com",
  password: "correct horse battery",
  currentPassword: "correct horse battery",
  newPassword: "a longer horse battery",
  username: "x-access-token",
  code: "WELCOME",
  coupon_code: "WELCOME",
  token,
  accessToken: token,
  access_token: token,
  refreshToken: "srt_…",
  refresh_token: "srt_…",
  challenge: "8hQ…",
  device_code: "GmRhmhcxhwAzkoEqiMEg",
  user_code: "BCDF-GHJK",
  userCode: "BCDF-GHJK",
  secret: `whsec_${"A".repeat(43)}=`,
  amount_currency: "USD",
  currency: "USD",
  plan: "self-hosted",
  plans: "self-hosted",
  month: "2026-01",
  day: "2026-01-31",
  cpu: "2",
  memory: "4",
  gpuCount: "1",
  hardware: "CPU",
  cooldownPeriodSeconds: "10",
  minReplicaCount: "0",
  maxReplicaCount: "2",
  replicaConcurrency: "1",
  responseGracePeriodSeconds: "900",
  runtime: "cortex",
  ip: "203.0.113.7",
  address: "203.0.113.7",
  hostIp: "10.0.0.5",
  method: "POST",
  action: "app.create",
  stage: "install",
  log: "Collecting numpy",
  logLine: "Ready.",
  client: "slipway/0.2.0 (linux x64)",
  type: "service_account",
  reason: "The app was stopped.",
  nextToken: "MTAw",
  nextPageToken: "MTAw",
  message: "Done.",
  actor: "ada@example.com",
  search: "error",
  event: "push",
  pythonVersion: "3.12",
  baseImage: "debian:bookworm-slim",
  compute: "CPU",
  changed: "cooldownPeriodSeconds",
  buildSecrets: "PIP_TOKEN",
  egressCidrs: "203.0.113.0/24",
  entrypoint: "uvicorn main:app --port 8000",
  healthcheckEndpoint: "/health",
  storagePath: "/data",
  id: appId,
  last_used_address: "203.0.113.7",
  containerIp: "10.0.0.7",
  value: 2,
  pending: 4,
  tier: "interruptible",
  compute_tier: "interruptible",
  hardwareProvider: "local",
  coupon_name: "Welcome",
  logId: "1042",
  origin: "api",
  from: "2026-01-01T00:00:00Z",
  to: "2026-02-01T00:00:00Z",
  apiKey: token,
  ref: "refs/heads/main",
  runId: id,
  file_path: "models/model.bin",
  upload_id: id,
  etag: '"9f86d081884c7d659a2feaa0c55ad015"',
  mountPath: "/persistent-storage",
  cliVersion: "1.0.0",
  keyName: "hello.zip",
  contentType: "application/json",
  backupCodes: "h4k2-9dmx",
};

const byFormat: Json = {
  uuid: id,
  uri: site,
  starts_with: byName["secret"],
  binary: "…",
};

/** What no schema says: which fields go together. By operation id. */
const ofBodies: Readonly<Record<string, Json>> = {
  createGitApp: {
    name: "hello",
    gitRepo: "acme/shop",
    gitPath: "services/hello",
    cpu: 2,
    memory: 4,
  },
  deployUpload: { name: "hello", cpu: 2, memory: 4 },
  updateApp: { cooldownPeriodSeconds: 60, maxReplicaCount: 5 },
  createBuild: { branch: "main" },
  rollBack: {},
  createCoupon: {
    code: "WELCOME",
    name: "Welcome",
    coupon_type: "percentage",
    percentage_rate: 10,
  },
  setProjectBudget: { amount_cents: 50_000, warn_percent: [80, 100], stop: false },
  setAppBudget: { amount_cents: 10_000, warn_percent: [80, 100], stop: true },
  createServiceAccount: { name: "ci", role: "member" },
  updateServiceAccount: { name: "ci", role: "member" },
  setCredential: { kind: "token", secret: "ghp_…" },
  setProjectSecrets: { OPENAI_API_KEY: "sk-…" },
  setAppSecrets: { OPENAI_API_KEY: "sk-…" },
};

/** The example body of a route: what is required, unless it has one of its own. */
export function bodyExample(operationId: string, schema: Json): unknown {
  const { required = [], properties = {} } = schema as {
    required?: readonly string[];
    properties?: Record<string, Json>;
  };
  const needed = required.map((name) => [name, example(properties[name] ?? {}, name)]);
  return ofBodies[operationId] ?? Object.fromEntries(needed);
}

/** An example of a schema; `name`: of the property that it describes. */
export function example(schema: Json, name = ""): unknown {
  if ("const" in schema) return schema["const"];
  for (const list of [schema["enum"], schema["examples"]]) if (Array.isArray(list)) return list[0];
  const [first, ...rest] = (schema["anyOf"] ?? schema["oneOf"] ?? []) as readonly Json[];
  if (first !== undefined) return unlessUnknown(example(first, name), rest);
  if (schema["default"] !== undefined) return schema["default"];
  const [type] = [schema["type"]].flat();
  if (type === "object") return objectExample(schema, name);
  if (type === "array") return [example(schema["items"] as Json, name)];
  if (type === "boolean") return false;
  if (type === "number" || type === "integer") return numberExample(schema);
  if (schema["format"] === "date-time") return timeExample(schema["pattern"] as string);
  const format = typeof schema["format"] === "string" ? schema["format"] : "";
  return (
    (format === "uri" ? byName[name] : byFormat[format]) ??
    byName[name] ??
    byFormat[format] ??
    (Array.isArray(schema["type"]) ? null : unknown)
  );
}

const unknown = "…";

/** Null says more than a text of which nothing is known. */
function unlessUnknown(given: unknown, others: readonly Json[]): unknown {
  return given === unknown && others.some(({ type }) => type === "null") ? null : given;
}

function objectExample({ properties = {}, additionalProperties }: Json, name: string): Json {
  const named = Object.entries(properties as Record<string, Json>).map(([key, one]) => [
    key,
    example(one, key),
  ]);
  if (named.length > 0 || typeof additionalProperties !== "object")
    return Object.fromEntries(named) as Json;
  return {
    [name === "settings" || name === "changes" ? "cpu" : "KEY"]: example(
      additionalProperties as Json,
      name,
    ),
  };
}

/** Some times have a fixed number of decimals. */
function timeExample(pattern: string): string {
  const texts = ["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123Z", "2026-01-31T12:00:00.123456Z"];
  return texts.find((text) => new RegExp(pattern).test(text)) ?? unknown;
}

function numberExample({ minimum, exclusiveMinimum }: Json): number {
  return Math.max(1, Number(minimum ?? 1), Number(exclusiveMinimum ?? 0) + 1);
}
