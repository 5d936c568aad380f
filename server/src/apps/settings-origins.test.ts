// Where settings come from, over the whole life of an app: layers, origins, and what a live change
// or `null` makes of a release.
import { describe, test } from "node:test";
import assert from "node:assert/strict";
import fc from "fast-check";
import { appFields } from "@slipway/contract/app-fields.ts";
import {
  settingNames,
  type AppSettings,
  type SettingName,
} from "@slipway/contract/app-settings.ts";
import { Fault } from "#lib/fault.ts";
import { liveSettings, resolveFiles, resolveSettings, type ResolvedSettings } from "./settings.ts";

const base = { name: "my-app", gitRepo: "acme/shop" };
const providers = ["aws", "local"];

/** Valid values of fields that go together in any mix, and also stand in TOML files. */
const values = {
  cooldownPeriodSeconds: fc.integer({ min: 0, max: 3600 }),
  minReplicaCount: fc.integer({ min: 0, max: 1 }),
  maxReplicaCount: fc.integer({ min: 1, max: 9 }),
  disableAuth: fc.boolean(),
  loadBalancingAlgorithm: fc.constantFrom("round-robin", "min-connections"),
  replicaConcurrency: fc.integer({ min: 1, max: 9 }),
  cpu: fc.constantFrom(1, 2, 4.5),
  memory: fc.constantFrom(1, 4),
  compute: fc.constantFrom(["CPU"], ["ADA_L4", "TURING_T4"]),
  region: fc.constantFrom("here", "there"),
  pythonVersion: fc.constantFrom("3.11", "3.12"),
  useUv: fc.boolean(),
} as const;
type Name = keyof typeof values;
const names = Object.keys(values) as Name[];
type Layer = Readonly<Partial<Record<Name, unknown>>>;
const layer: fc.Arbitrary<Layer> = fc.record(values, { requiredKeys: [] });

function toml(given: Layer): string {
  const lines = Object.entries(given).map(
    ([name, value]) => `cerebrium.${appFields[name as Name].toml} = ${JSON.stringify(value)}`,
  );
  return lines.join("\n");
}

function resolve(api: Layer, config: Layer, repository: Layer): ResolvedSettings {
  const repositoryToml = { name: "slipway.toml", text: toml(repository) };
  return resolveSettings({
    body: { ...base, ...api },
    configToml: toml(config),
    repositoryToml,
    providers,
  });
}

const isLive = (name: SettingName): boolean => appFields[name].change === "live";

function pick(settings: AppSettings, isWanted: (name: SettingName) => boolean): unknown {
  return Object.fromEntries(settingNames.filter(isWanted).map((name) => [name, settings[name]]));
}

describe("the layers of settings", () => {
  test("each setting has the value and the origin of the first layer that has it", () => {
    fc.assert(
      fc.property(layer, layer, layer, (api, config, repository) => {
        const { settings, origins } = resolve(api, config, repository);
        for (const name of names) {
          const [origin, from] = Object.entries({ api, config_toml: config, repository }).find(
            ([, one]) => name in one,
          ) ?? ["default"];
          assert.equal(origins[name], origin, name);
          if (from !== undefined) assert.deepEqual(settings[name], from[name], name);
        }
        assert.equal(origins.gitRepo, "api");
        assert.equal(origins.port, "default");
      }),
    );
  });

  test("a layer that is taken away leaves what the others say", () => {
    fc.assert(
      fc.property(layer, layer, layer, fc.subarray(names), (api, config, repository, removed) => {
        const { files } = resolve(api, config, repository);
        const nulls = Object.fromEntries(removed.map((name) => [name, null]));
        const rest = Object.fromEntries(
          Object.entries(api).filter(([name]) => !removed.includes(name as Name)),
        );
        const body = { ...base, ...api, ...nulls };
        const stored = JSON.parse(JSON.stringify(files));
        const { settings, origins } = resolveFiles({
          body,
          files: stored,
          isComplete: true,
          providers,
        });
        const expected = resolve(rest, config, repository);
        assert.deepEqual(settings, expected.settings);
        assert.deepEqual(origins, expected.origins);
      }),
    );
  });

  test("a build names the values of the repository's file that do not count, and no others", () => {
    fc.assert(
      fc.property(layer, layer, layer, (api, config, repository) => {
        const { warnings } = resolve(api, config, repository);
        const before = { ...config, ...api };
        for (const name of names) {
          const beginning = `${appFields[name].toml} in slipway.toml is `;
          const isHidden =
            name in repository &&
            name in before &&
            JSON.stringify(before[name]) !== JSON.stringify(repository[name]);
          assert.equal(
            warnings.some((line) => line.startsWith(beginning) && line.includes("does not count")),
            isHidden,
            name,
          );
        }
      }),
    );
  });

  test("the sentence says what counts instead", () => {
    const repository =
      "[cerebrium.scaling]\ncooldown = 30\n[cerebrium.hardware]\ncpu = 3\n[cerebrium.dependencies.pip]\na = ''";
    const { warnings } = resolveSettings({
      body: { ...base, cooldownPeriodSeconds: 40 },
      configToml: "[cerebrium.hardware]\ncpu = 4\n[cerebrium.dependencies.pip]\nb = ''",
      repositoryToml: { name: "slipway.toml", text: repository },
      providers,
    });
    assert.deepEqual(warnings, [
      "scaling.cooldown in slipway.toml is 30, which does not count: the API has set cooldownPeriodSeconds to 40.",
      "hardware.cpu in slipway.toml is 3, which does not count: config_toml has 4.",
      "dependencies.pip in slipway.toml does not count: config_toml has it too.",
    ]);
  });

  test("a table of the interface below the platform's own name is named as it is called", () => {
    const text = "[slipway.deployment]\nname = 'x'\n[slipway.nothing]\na = 1";
    const { warnings } = resolveSettings({
      body: base,
      configToml: null,
      repositoryToml: { name: "slipway.toml", text },
      providers,
    });
    assert.deepEqual(warnings, [
      "slipway.deployment in slipway.toml has no effect; the table is called [cerebrium.deployment].",
      "slipway.nothing in slipway.toml is unknown and has no effect.",
    ]);
  });

  test("a file that was also sent with the request is read once, under its name", () => {
    const text = "[cerebrium.hardware]\ncpu = 3\nfoo = 1\ngpu_count = 2";
    const repositoryToml = { name: "slipway.toml", text };
    const { origins, warnings } = resolveSettings({
      body: base,
      configToml: text,
      repositoryToml,
      providers,
    });
    assert.equal(origins.cpu, "config_toml");
    assert.deepEqual(warnings, [
      "hardware.foo in slipway.toml is unknown and has no effect; did you mean hardware.cpu?",
      "hardware.gpu_count in slipway.toml is 2 and has no effect: the app runs on CPU.",
    ]);
  });

  test("a value that a rule has changed has its default's origin", () => {
    const text = "[cerebrium.hardware]\ngpu_count = 1";
    const { settings, origins } = resolveSettings({
      body: base,
      configToml: text,
      repositoryToml: null,
      providers,
    });
    assert.deepEqual([settings.gpuCount, origins.gpuCount], [0, "default"]);
  });
});

describe("the settings of a release in effect", () => {
  test("live fields are as if they had been there at the build, all others as at the build", () => {
    fc.assert(
      fc.property(layer, layer, layer, layer, (apiThen, config, repository, apiNow) => {
        const release = resolve(apiThen, config, repository);
        const { settings: found, origins } = liveSettings(release, { ...base, ...apiNow });
        assert.deepEqual(
          pick(found, (name) => !isLive(name)),
          pick(release.settings, (name) => !isLive(name)),
        );
        const { replicaConcurrency, compute } = release.settings;
        const expected = resolve({ ...apiNow, replicaConcurrency, compute }, config, repository);
        assert.deepEqual(pick(found, isLive), pick(expected.settings, isLive));
        for (const name of settingNames) {
          const then = release.origins[name];
          const now = name in apiNow ? "api" : expected.origins[name];
          assert.equal(origins[name], isLive(name) ? now : then, name);
        }
        assert.deepEqual(found.dependencies, release.settings.dependencies);
      }),
    );
  });

  test("nothing changes where nothing was set since, also for what the build found out", () => {
    fc.assert(
      fc.property(layer, layer, (api, repository) => {
        const resolved = resolve(api, {}, repository);
        const settings = { ...resolved.settings, gitBranch: "master" };
        assert.deepEqual(liveSettings({ ...resolved, settings }, { ...base, ...api }), {
          settings,
          origins: resolved.origins,
        });
      }),
    );
  });

  test("a value of a file that is not allowed was hidden at the build and does not count", () => {
    const files = {
      cooldownPeriodSeconds: {
        value: 99_999,
        path: "scaling.cooldown in slipway.toml",
        origin: "repository",
      },
    } as const;
    const body = { ...base, cooldownPeriodSeconds: 7 };
    const { settings, origins } = resolveFiles({ body, files, isComplete: true, providers });
    assert.equal(
      liveSettings({ settings, origins, files }, base).settings.cooldownPeriodSeconds,
      7,
    );
    assert.throws(() => resolveFiles({ body: base, files, isComplete: true, providers }), Fault);
  });
});
