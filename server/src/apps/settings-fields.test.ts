// Every field of a create request, one by one: what it accepts, what it refuses, what it is when it
// is left out.
import { describe, test } from "node:test";
import assert from "node:assert/strict";
import { appFields, fieldNames, type FieldName } from "@slipway/contract/app-fields.ts";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import { Fault } from "#lib/fault.ts";
import { resolveSettings } from "./settings.ts";

type Case = {
  readonly fine: readonly unknown[];
  readonly bad: readonly unknown[];
  /** What the settings hold when it is left out; absent: it is not part of the settings. */
  readonly byDefault?: unknown;
  /** Other fields that its values go with. */
  readonly with?: Readonly<Record<string, unknown>>;
};

const base = { name: "my-app", gitRepo: "acme/shop" };
const providers = ["aws", "crusoe", "nebius"];

function resolve(body: Readonly<Record<string, unknown>>): AppSettings {
  return resolveSettings({
    body: { ...base, ...body },
    configToml: null,
    repositoryToml: null,
    providers,
  }).settings;
}

const number = (min: number, max: number, byDefault: number, more: Partial<Case> = {}): Case => ({
  fine: [min, max, (min + max) / 2],
  bad: [min - 0.001, max + 0.001, String(min), Infinity, NaN, -Infinity, true, [min], {}],
  byDefault,
  ...more,
});
const integer = (min: number, max: number, byDefault: number, more: Partial<Case> = {}): Case => ({
  fine: [min, max],
  bad: [min - 1, max + 1, min + 0.5, String(min), Infinity, NaN, 1e300, false, [min]],
  byDefault,
  ...more,
});
const choice = (
  choices: readonly string[],
  byDefault: unknown,
  more: Partial<Case> = {},
): Case => ({
  fine: choices,
  bad: [
    "",
    choices[0]?.toUpperCase() === choices[0]
      ? choices[0]?.toLowerCase()
      : choices[0]?.toUpperCase(),
    1,
    [choices[0]],
  ],
  byDefault,
  ...more,
});
const flag = (byDefault: boolean): Case => ({
  fine: [true, false],
  bad: ["true", 1, 0, "", []],
  byDefault,
});
const badPaths = [
  "/etc",
  "../up",
  "a/../../b",
  "a/..",
  "..",
  "a\\b",
  "a\nb",
  5,
  ["a"],
  "x".repeat(501),
];
const badEndpoints = ["health", "http://h/health", "/a b", "/a\nb", 1, true];

const cases: Record<FieldName, Case> = {
  cliVersion: {
    fine: ["1.2.3", "v2-beta"],
    bad: ["", "x".repeat(101), "a\nb", 2, 1.5],
    byDefault: null,
  },
  gitRepo: {
    fine: [
      "acme/shop",
      "A_c.m-e/.github",
      "a/b",
      "o/r.js",
      "acme/sub/shop",
      "https://gitlab.com/a/b",
    ],
    bad: [
      "acme",
      "acme/",
      "/shop",
      "acme/..",
      "acme/.",
      "-acme/shop",
      "acme/shop.git",
      "a b/c",
      "https://u@h/a/b",
      "git@h:a/b",
      "acme/shop/..",
      "",
      1,
    ],
  },
  name: {
    fine: ["abc", "a-1", "x".repeat(30), "123"],
    bad: ["ab", "x".repeat(31), "Abc", "a_b", "a.b", "abc\n", "äbc", "", 123, ["abc"]],
  },
  baseImage: {
    fine: ["debian:bookworm-slim", "r.example.org:5000/a/b@sha256:ab", "nvidia/cuda:12.1.1-base"],
    bad: ["", "a b", "-x", "a\n", "x".repeat(501), 1],
    byDefault: "debian:bookworm-slim",
  },
  buildSecrets: {
    fine: [
      [],
      ["PIP_TOKEN"],
      ["_a1", "HF_TOKEN"],
      ["x".repeat(100)],
      Array.from({ length: 20 }, (_, n) => `T${n}`),
    ],
    bad: [
      "PIP_TOKEN",
      [""],
      ["1BAD"],
      ["a-b"],
      ["a.b"],
      ["a b"],
      ["A", "A"],
      ["x".repeat(101)],
      ["A\nB"],
      [7],
      {},
      Array.from({ length: 21 }, (_, n) => `T${n}`),
    ],
    byDefault: [],
  },
  config_toml: { fine: [], bad: [] },
  dockerAuth: { fine: [], bad: [] },
  compute: {
    fine: [
      ...appFields.compute.choices,
      ["CPU"],
      ["ADA_L4", "ADA_L40", "AMPERE_A10", "TURING_T4", "HOPPER_H100"],
      ["INF2", "TRN1"],
    ],
    bad: [
      "",
      "cpu",
      "A10",
      [],
      ["CPU", "CPU"],
      ["CPU", 1],
      ["nope"],
      1,
      {},
      ["ADA_L4", "ADA_L40", "AMPERE_A10", "TURING_T4", "HOPPER_H100", "HOPPER_H200"],
      [["CPU"]],
    ],
    byDefault: ["CPU"],
  },
  computeTier: choice(["interruptible", "protected"], "interruptible"),
  containerRuntime: choice(["v1", "v2"], null),
  cooldownPeriodSeconds: number(0, 3600, 10),
  corsCredentials: { ...flag(false), with: { corsOrigins: ["https://a.example"] } },
  corsHeaders: {
    fine: [
      [],
      ["*"],
      ["X-Api-Version", "x!#$%&'*+.^_`|~9"],
      Array.from({ length: 64 }, () => "X-A"),
    ],
    bad: [
      "*",
      [""],
      ["X Y"],
      ["X-A,X-B"],
      ["X-A\r\nX-B"],
      ["x".repeat(101)],
      [7],
      {},
      Array.from({ length: 65 }, () => "x"),
    ],
    byDefault: [],
  },
  corsOrigins: {
    fine: [
      [],
      ["*"],
      ["https://a.example", "http://localhost:3000", "http://[::1]:8080"],
      ["capacitor://localhost"],
    ],
    bad: [
      "*",
      {},
      ...[
        "",
        "null",
        "a.example",
        "https://a.example/",
        "https://a.example/x",
        "https://A.example",
      ].map((one) => [one]),
      ...[
        "https://*.a.example",
        "https://a.example:443",
        "http://a.example:80",
        "https://a@b.example",
      ].map((one) => [one]),
      ...["https://a.example\r\nX: y", "https://a.example, https://b.example", 7].map((one) => [
        one,
      ]),
    ],
    byDefault: [],
  },
  cpu: number(0.25, 192, 2),
  deploymentInitializationTimeout: number(60, 830, 600),
  disableAuth: flag(false),
  dockerfilePath: {
    fine: ["Dockerfile", "docker/Dockerfile.gpu", "a..b"],
    bad: badPaths,
    byDefault: null,
    with: { runtime: "custom", entrypoint: ["x"] },
  },
  egressCidrs: {
    fine: [
      [],
      ["203.0.113.0/24", "8.8.8.8/32"],
      ["2001:db8::/32"],
      Array.from({ length: 64 }, () => "1.1.1.0/24"),
    ],
    bad: [
      "203.0.113.0/24",
      [""],
      ["203.0.113.7"],
      ["203.0.113.0/33"],
      ["203.0.113.0/-1"],
      ["256.0.0.0/8"],
      ["203.0.113.0/24 accept"],
      ["::/129"],
      ["example.org"],
      [7],
      {},
      Array.from({ length: 65 }, () => "1.1.1.0/24"),
    ],
    byDefault: null,
  },
  entrypoint: {
    fine: [["python", "main.py"], ["x", ""], ["true"]],
    bad: [
      "python main.py",
      [1],
      ["a\0b"],
      [["a"]],
      {},
      1,
      ["'open"],
      ["\ud800"],
      Array.from({ length: 201 }, () => "a"),
    ],
    byDefault: [],
    with: { runtime: "custom", dockerfilePath: "Dockerfile" },
  },
  evaluationIntervalSeconds: number(6, 300, 30),
  gitAutoDeploy: flag(true),
  gitBranch: {
    fine: ["main", "feature/x", "v1.2", "a@b", "ünï"],
    bad: [
      "",
      "-x",
      "a..b",
      "a b",
      "a/",
      "/a",
      "a.lock",
      "a~1",
      "a^",
      "a:b",
      "a?",
      "a*",
      "a[",
      "a\\b",
      "@{x",
      "a@{b",
      "x".repeat(201),
      1,
      "a\n",
    ],
    byDefault: "main",
  },
  gitPath: { fine: ["", "apps/shop", "a..b"], bad: badPaths, byDefault: "" },
  gpuCount: integer(1, 16, 1, {
    with: { compute: "AMPERE_A10" },
    bad: [-1, 0, 17, 1.5, "1", Infinity, true],
  }),
  healthcheckEndpoint: {
    fine: ["", "/", "/health?deep=1"],
    bad: badEndpoints,
    byDefault: "",
    with: { runtime: "custom", entrypoint: ["x"] },
  },
  keepPathPrefix: { ...flag(false), with: { runtime: "custom", entrypoint: ["x"] } },
  loadBalancingAlgorithm: choice(appFields.loadBalancingAlgorithm.choices, "round-robin"),
  logLevel: choice(["INFO", "DEBUG", "INTERNAL", "ERROR"], "INFO"),
  maxReplicaCount: integer(1, 2000, 1),
  memory: number(0.05, 1984, 4),
  minReplicaCount: integer(0, 2000, 0, { with: { maxReplicaCount: 2000 } }),
  gitLfs: flag(false),
  gitSubmodules: flag(false),
  partialUpload: flag(true),
  port: integer(0, 65535, 8000),
  provider: { fine: providers, bad: ["", "local", "AWS", 1], byDefault: null },
  pythonVersion: {
    fine: ["3.8", "3.10", "3.14"],
    bad: ["3", "3.7", "3.15", "2.7", "latest", "", 3.11, "3.11\n"],
    byDefault: "3.10",
  },
  readycheckEndpoint: {
    fine: ["", "/ready"],
    bad: badEndpoints,
    byDefault: "",
    with: { runtime: "custom", entrypoint: ["x"] },
  },
  region: {
    fine: ["global", "us-east-1"],
    bad: ["", "us east", "-x", "a/b", 1, "x".repeat(64)],
    byDefault: null,
  },
  replicaConcurrency: {
    fine: [1, 100, 100_000],
    bad: [0, -1, 1.5, "1", Infinity, 1e300],
    byDefault: 100,
  },
  responseGracePeriodSeconds: number(16, 43200, 900),
  retries: integer(0, 10, 0),
  rollOutDurationSeconds: number(0, 21600, 0),
  runtime: choice(["cortex", "custom"], "cortex", { with: { healthcheckEndpoint: "" } }),
  scalingBuffer: { fine: [0, 1, 5000], bad: [-1, 0.5, "1", Infinity], byDefault: 0 },
  scalingMetric: choice(appFields.scalingMetric.choices, "concurrency_utilization", {
    with: { minReplicaCount: 1, maxReplicaCount: 2 },
  }),
  scalingTarget: {
    fine: [0.001, 1, 100, 1e6],
    bad: [0, -1, "1", Infinity, NaN],
    byDefault: 100,
    with: { scalingMetric: "requests_per_second" },
  },
  storagePath: {
    fine: [
      "/data",
      "/data/models",
      "/var/lib/ghost/content",
      "/home/app/data",
      "/root/.ollama",
      "/mnt",
      "/etcetera",
    ],
    bad: [
      "",
      "/",
      "data",
      "./data",
      "/data/../etc",
      "/..",
      "/data//x",
      "/da ta",
      "/data\n",
      "/dätä",
      "/data:ro",
      "/a,b",
      "/etc",
      "/etc/ssl/",
      "/usr/local/lib",
      "/proc/1",
      "/dev/shm",
      "/tmp/x",
      "/lib64",
      "/var",
      "/var/lib/",
      "/var/run/x",
      "/home",
      "/home/app",
      "/opt",
      "/opt/venv/lib",
      "/root",
      "/cortex",
      "/cortex/data",
      "/venv",
      "/persistent-storage/x",
      1,
      [],
      `/${"x".repeat(101)}`,
      "/x".repeat(11),
    ],
    byDefault: null,
  },
  useUv: flag(false),
};

/** Fields of this platform's own; all others are those of the published interface. */
const ownFields: readonly FieldName[] = [
  ...(["buildSecrets", "gitLfs", "gitSubmodules"] as const),
  ...([
    "corsCredentials",
    "corsHeaders",
    "corsOrigins",
    "egressCidrs",
    "keepPathPrefix",
    "retries",
    "storagePath",
  ] as const),
];

describe("a field of a create request", () => {
  test("is one of the 40 of the published interface, or one that is known to be an addition", () => {
    assert.equal(fieldNames.filter((name) => !ownFields.includes(name)).length, 40);
    assert.ok(ownFields.every((name) => fieldNames.includes(name)));
  });

  for (const name of fieldNames) {
    const { fine, bad, byDefault, with: others } = cases[name];
    test(`${name} accepts ${fine.length} good values, refuses ${bad.length} bad ones naming them, and has its default`, () => {
      for (const value of fine) {
        const start = name === "runtime" && value === "custom" ? { entrypoint: ["serve"] } : {};
        const settings: Readonly<Record<string, unknown>> = resolve({
          ...others,
          ...start,
          [name]: value,
        });
        assert.deepEqual(
          settings[name],
          name === "compute" && !Array.isArray(value) ? [value] : value,
        );
      }
      for (const value of bad) {
        assert.throws(
          () => resolve({ ...others, [name]: value }),
          (error) => namesField(error, name),
        );
      }
      if (byDefault === undefined) return;
      const settings: Readonly<Record<string, unknown>> = resolve({ ...others, [name]: undefined });
      assert.deepEqual(settings[name], byDefault);
      const withNull: Readonly<Record<string, unknown>> = resolve({ ...others, [name]: null });
      assert.deepEqual(withNull[name], byDefault, "null counts as absent");
    });
  }

  test("a missing name is refused", () => {
    assert.throws(
      () => resolveSettings({ body: { gitRepo: "a/b" }, configToml: null, providers }),
      (error) => namesField(error, "name"),
    );
  });

  test("defaults that depend on other fields are computed", () => {
    assert.equal(resolve({ compute: "AMPERE_A10" }).replicaConcurrency, 1);
    assert.equal(resolve({ compute: "AMPERE_A10" }).gpuCount, 1);
    assert.equal(resolve({ compute: "AMPERE_A10" }).loadBalancingAlgorithm, "first-available");
    assert.equal(resolve({ replicaConcurrency: 3 }).loadBalancingAlgorithm, "first-available");
    assert.equal(resolve({ replicaConcurrency: 4 }).loadBalancingAlgorithm, "round-robin");
    assert.equal(resolve({}).gpuCount, 0);
  });
});

function namesField(error: unknown, name: string): boolean {
  assert.ok(error instanceof Fault, String(error));
  assert.equal(error.code, "invalid");
  assert.match(error.message, new RegExp(`^${name} is .+ must `));
  return true;
}
