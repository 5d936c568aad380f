// Settings that other versions of the platform stored: each form that there ever was is read,
// anything else is refused with the field's name.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { appFields } from "@slipway/contract/app-fields.ts";
import { settingNames } from "@slipway/contract/app-settings.ts";
import { Fault } from "#lib/fault.ts";
import { resolveSettings } from "./settings.ts";
import { readSettings, releaseSettings } from "./stored-settings.ts";

/**
 * As the first version stored them: an app on a GPU with all kinds of values, before a run could be
 * tried again.
 */
const first = {
  name: "shop",
  gitRepo: "acme/shop",
  cliVersion: null,
  gitBranch: "main",
  gitPath: "apps/shop",
  gitAutoDeploy: true,
  partialUpload: false,
  runtime: "custom",
  pythonVersion: "3.12",
  baseImage: "debian:bookworm-slim",
  dockerfilePath: null,
  entrypoint: ["serve", "--fast"],
  port: 9000,
  healthcheckEndpoint: "/health",
  readycheckEndpoint: "",
  useUv: true,
  preBuildCommands: [],
  shellCommands: ["echo built"],
  dependencies: { pip: { torch: ">=2.0" }, apt: {}, conda: {}, paths: { apt: "packages.txt" } },
  compute: ["ADA_L4", "TURING_T4"],
  computeTier: "protected",
  containerRuntime: null,
  cpu: 3,
  memory: 5.5,
  gpuCount: 2,
  provider: null,
  region: "eu",
  minReplicaCount: 0,
  maxReplicaCount: 4,
  cooldownPeriodSeconds: 12,
  replicaConcurrency: 6,
  responseGracePeriodSeconds: 100,
  scalingMetric: "requests_per_second",
  scalingTarget: 250,
  scalingBuffer: 2,
  evaluationIntervalSeconds: 12,
  loadBalancingAlgorithm: "min-connections",
  rollOutDurationSeconds: 60,
  deploymentInitializationTimeout: 70,
  disableAuth: true,
  logLevel: "DEBUG",
};

/** The fields of later versions, by default. */
const since = {
  buildSecrets: [],
  gitLfs: false,
  gitSubmodules: false,
  retries: 0,
  egressCidrs: null,
  corsCredentials: false,
  corsHeaders: [],
  corsOrigins: [],
  keepPathPrefix: false,
  storagePath: null,
  dependencies: { ...first.dependencies, groups: [] },
};

function refusal(stored: unknown): string {
  const read = readSettings(stored);
  assert.ok(read instanceof Fault, JSON.stringify(read));
  assert.equal(read.code, "not_usable");
  return read.message;
}

describe("stored settings", () => {
  test("of the first version are read, without retries", () => {
    assert.deepEqual(releaseSettings(first), { ...first, ...since });
  });

  test("with retries are read", () => {
    assert.deepEqual(releaseSettings({ ...first, retries: 3 }), { ...first, ...since, retries: 3 });
  });

  test("of this version are what was resolved", () => {
    const body = { name: "app", gitRepo: "a/b", compute: "ADA_L4", pythonVersion: "3.13.2" };
    const { settings } = resolveSettings({
      body,
      configToml: null,
      repositoryToml: null,
      providers: [],
    });
    assert.deepEqual(releaseSettings(JSON.parse(JSON.stringify(settings))), settings);
  });

  test("have the table's default for any field that a version did not know yet", () => {
    for (const name of settingNames) {
      if (name === "name" || name === "gitRepo") continue;
      const { [name]: _, ...older } = { ...first, ...since };
      const byDefault = {
        gpuCount: 1,
        loadBalancingAlgorithm: "round-robin",
        replicaConcurrency: 1,
      }[name as string];
      assert.deepEqual(releaseSettings(older)[name], byDefault ?? appFields[name].default, name);
      assert.deepEqual(
        releaseSettings({ ...older, [name]: null })[name],
        byDefault ?? appFields[name].default,
        name,
      );
    }
  });

  test("of an app whose files are uploaded have no repository", () => {
    assert.equal(releaseSettings({ ...first, gitRepo: null }).gitRepo, null);
  });

  test("of a later version are read without the fields that this one does not know", () => {
    assert.deepEqual(releaseSettings({ ...first, moonPhase: "full" }), { ...first, ...since });
  });

  test("beyond the limits of today's requests go on working", () => {
    const entrypoint = Array.from({ length: 500 }, (_, index) => `word-${index}`);
    assert.equal(releaseSettings({ ...first, entrypoint, cpu: 1000 }).entrypoint.length, 500);
  });

  const broken: readonly (readonly [string, unknown, RegExp])[] = [
    [
      "a number that is a text",
      { ...first, scalingTarget: "250" },
      /scalingTarget is "250" \(.*expected number/,
    ],
    [
      "half a replica",
      { ...first, maxReplicaCount: 1.5 },
      /maxReplicaCount is 1\.5 \(.*expected int/,
    ],
    [
      "a compute type that is gone",
      { ...first, compute: ["VAX"] },
      /compute\.0 is "VAX" \(.*expected one of/,
    ],
    ["a repository that is no text", { ...first, gitRepo: 7 }, /gitRepo is 7 \(.*expected string/],
    [
      "a version that is no text",
      { ...first, dependencies: { ...first.dependencies, pip: { a: 1 } } },
      /pip\.a is 1/,
    ],
    ["nothing", null, /settings are null \(.*expected object/],
    ["a list", [first], /settings are a list of 1/],
  ];
  for (const [what, stored, sentence] of broken) {
    test(`with ${what} are refused by the field's name`, () => {
      assert.match(refusal(stored), sentence);
      assert.throws(() => releaseSettings(stored), sentence);
    });
  }
});
