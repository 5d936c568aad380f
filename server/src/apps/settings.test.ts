// Settings of an app from all their sources: precedence, TOML facts, rules across fields, and that
// no input breaks it.
import { describe, test } from "node:test";
import assert from "node:assert/strict";
import fc from "fast-check";
import { appFields, fieldNames } from "@slipway/contract/app-fields.ts";
import { Fault } from "#lib/fault.ts";
import { anyText } from "#test/support/any-text.ts";
import { readCreateRequest } from "./create-request.ts";
import { resolveSettings, type ResolvedSettings } from "./settings.ts";
import { readTomlFile } from "./toml-file.ts";

const base = { name: "my-app", gitRepo: "acme/shop" };
const providers = ["aws", "local"];

function fromToml(toml: string, body: Readonly<Record<string, unknown>> = base): ResolvedSettings {
  const repositoryToml = { name: "slipway.toml", text: toml };
  return resolveSettings({ body, configToml: null, repositoryToml, providers });
}

function atRequest(body: Readonly<Record<string, unknown>>): ResolvedSettings {
  return resolveSettings({ body: { ...base, ...body }, configToml: null, providers });
}

function refusal(run: () => unknown): string {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof Fault, String(error));
    assert.equal(error.code, "invalid");
    return error.message;
  }
  assert.fail("was not refused");
}

describe("where a setting comes from", () => {
  test("the body counts before config_toml, that before the repository's file, that before the default", () => {
    const configToml = "[cerebrium.scaling]\ncooldown = 20\nmax_replicas = 20";
    const repository = "[cerebrium.scaling]\ncooldown = 30\nmax_replicas = 30\nscaling_buffer = 3";
    const repositoryToml = { name: "slipway.toml", text: repository };
    const body = { ...base, cooldownPeriodSeconds: 40 };
    const { settings } = resolveSettings({ body, configToml, repositoryToml, providers });
    assert.equal(settings.cooldownPeriodSeconds, 40);
    assert.equal(settings.maxReplicaCount, 20);
    assert.equal(settings.scalingBuffer, 3);
    assert.equal(settings.port, 8000);
  });

  test("only the value that counts is checked", () => {
    const toml = "[cerebrium.hardware]\ncpu = 1000";
    assert.equal(fromToml(toml, { ...base, cpu: 1 }).settings.cpu, 1);
    assert.match(
      refusal(() => fromToml(toml)),
      /^hardware\.cpu in slipway\.toml is 1000, but must be a number from 0.25 to 192/,
    );
  });

  test("each field with a TOML place is read from there", () => {
    const toml = `
      slipway = { build = { secrets = ["PIP_TOKEN"] }, git = { lfs = true, submodules = true }, storage = { path = "/data" } }
      cerebrium.cors = { origins = ["https://a.example"], headers = ["X-A"], credentials = true }
      [cerebrium.deployment]
      name = "from-toml"
      python_version = "3.12"
      docker_base_image_url = "debian:12"
      disable_auth = true
      egress_cidrs = ["10.1.2.0/24"]
      use_uv = true
      deployment_initialization_timeout = 70
      shell_commands = ["", "echo b"]
      pre_build_commands = ["echo a"]
      [cerebrium.hardware]
      cpu = 3
      memory = 5.5
      compute = ["ADA_L4", "TURING_T4"]
      gpu_count = 2
      provider = "aws"
      region = "us-east-1"
      [cerebrium.scaling]
      min_replicas = 1
      max_replicas = 4
      cooldown = 12
      replica_concurrency = 6
      response_grace_period = 100
      retries = 4
      scaling_metric = "requests_per_second"
      scaling_target = 250
      scaling_buffer = 2
      evaluation_interval_seconds = 12
      load_balancing_algorithm = "min-connections"
      compute_tier = "protected"
      roll_out_duration_seconds = 60
      [cerebrium.runtime]
      container_runtime = "v2"
      [cerebrium.runtime.custom]
      keep_path_prefix = true
      port = 9000
      entrypoint = ["serve", "--fast"]
      healthcheck_endpoint = "/health"
      readycheck_endpoint = "/ready"
      dockerfile_path = "./docker//Dockerfile"
      [cerebrium.dependencies.pip]
      torch = ">=2.0"
      "ruamel.yaml" = "latest"
      [cerebrium.dependencies.paths]
      apt = "pkglist.txt"`;
    const { settings, warnings } = fromToml(toml, { gitRepo: "a/b" });
    const readNames = fieldNames.filter((name) => appFields[name].toml !== null);
    const byDefault: Readonly<Record<string, unknown>> = fromToml("", base).settings;
    const read: Readonly<Record<string, unknown>> = settings;
    for (const name of readNames)
      assert.notDeepEqual(
        read[name],
        byDefault[name],
        `${name} is read from ${appFields[name].toml}`,
      );
    assert.equal(settings.runtime, "custom");
    assert.equal(settings.dockerfilePath, "docker/Dockerfile");
    assert.deepEqual(settings.shellCommands, ["echo b"]);
    assert.deepEqual(settings.preBuildCommands, ["echo a"]);
    assert.deepEqual(settings.dependencies.pip, { torch: ">=2.0", "ruamel.yaml": "latest" });
    assert.deepEqual(settings.dependencies.paths, { apt: "pkglist.txt" });
    assert.deepEqual(warnings, [
      "dockerfilePath is docker/Dockerfile, so the build commands have no effect, and the dependency tables have an effect only if the Dockerfile copies requirements.txt, pkglist.txt or conda_pkglist.txt.",
    ]);
  });

  test("dependencies of a kind come from the first file that has that kind", () => {
    const configToml = '[cerebrium.dependencies.pip]\na = "1"';
    const repository =
      '[cerebrium.dependencies.pip]\nb = "2"\n[cerebrium.dependencies.apt]\ngit = ""';
    const repositoryToml = { name: "slipway.toml", text: repository };
    const { settings } = resolveSettings({ body: base, configToml, repositoryToml, providers });
    assert.deepEqual(settings.dependencies, {
      pip: { a: "1" },
      apt: { git: "" },
      conda: {},
      paths: {},
      groups: [],
    });
  });
});

describe("a TOML file", () => {
  test("an entrypoint that is one text or a list of one is split as a shell would", () => {
    const words = ["uvicorn", "main:app", "--log-config", "my file.json"];
    for (const value of [
      `"uvicorn main:app --log-config 'my file.json'"`,
      `["uvicorn main:app --log-config 'my file.json'"]`,
    ]) {
      assert.deepEqual(
        fromToml(`[cerebrium.runtime.custom]\nentrypoint = ${value}`).settings.entrypoint,
        words,
      );
    }
    assert.match(
      refusal(() => fromToml(`[cerebrium.runtime.custom]\nentrypoint = "sh -c 'open"`)),
      /quotes are closed/,
    );
  });

  test("a Python version may be a number, and 3.1 means 3.10", () => {
    assert.equal(
      fromToml("[cerebrium.deployment]\npython_version = 3.11").settings.pythonVersion,
      "3.11",
    );
    const ten = fromToml("[cerebrium.deployment]\npython_version = 3.10");
    assert.equal(ten.settings.pythonVersion, "3.10");
    assert.match(ten.warnings[0] ?? "", /read as 3\.10/);
    assert.equal(atRequest({ pythonVersion: "3.1" }).settings.pythonVersion, "3.10");
    assert.equal(atRequest({ pythonVersion: "3.12.4" }).settings.pythonVersion, "3.12");
  });

  test("unknown keys are warnings with the place that was meant", () => {
    const { warnings } = fromToml(`
      [cerebrium.build]
      use_uv = true
      [cerebrium.hardware]
      gpu_cuont = 1
      [cerebrium.pip.dependancies]
      x = "1"
      [tool.other]
      y = 1`);
    assert.match(warnings[0] ?? "", /^build in slipway.toml is unknown and has no effect/);
    assert.match(
      warnings[1] ?? "",
      /^hardware.gpu_cuont in slipway.toml .* did you mean hardware.gpu_count\?/,
    );
    assert.match(warnings[2] ?? "", /^pip in slipway.toml .* did you mean dependencies.pip\?/);
    assert.match(warnings[3] ?? "", /^tool in slipway.toml is ignored/);
    assert.equal(warnings.length, 4);
  });

  test("a provider that is no text is refused like any other", () => {
    for (const value of ["{}", "[{}]", "1"]) {
      const message = refusal(() => fromToml(`[cerebrium.hardware]\nprovider = ${value}`));
      assert.match(message, /^hardware\.provider in slipway\.toml is .*, but must be one of /);
    }
  });

  test("a file with very many unknown keys holds nothing up: fifty are named, the others counted", () => {
    const keys = Array.from({ length: 5_000 }, (_, index) => `key${index} = 1`);
    const began = process.cpuUsage();
    const { warnings } = readTomlFile(
      "slipway.toml",
      ["[cerebrium.deployment]", ...keys].join("\n"),
    );
    assert.ok(process.cpuUsage(began).user < 3_000_000, "it took longer than parsing explains");
    assert.equal(warnings.length, 51);
    assert.equal(warnings.at(-1), "slipway.toml has 4950 more keys without effect.");
  });

  test("a file that is longer than a settings file can be is refused before it is read", () => {
    const began = process.cpuUsage();
    const why = refusal(() => readTomlFile("slipway.toml", `${"a.".repeat(400_000)}a = 1`));
    assert.deepEqual(why, "slipway.toml has 800005 characters, but must have at most 100000.");
    assert.ok(process.cpuUsage(began).user < 1_000_000);
  });

  test("include and exclude are known and mean nothing here", () => {
    assert.deepEqual(
      fromToml("[cerebrium.deployment]\ninclude = ['*']\nexclude = ['.*']").warnings,
      [],
    );
  });

  test("what is not TOML is refused with its place", () => {
    assert.match(
      refusal(() => fromToml("[cerebrium\n")),
      /^slipway.toml is not valid TOML at line 1, column \d+: .+\.$/,
    );
  });

  test("tables and lists of the wrong kind are refused, naming them", () => {
    const wrong: readonly (readonly [string, RegExp])[] = [
      ["cerebrium = 1", /^cerebrium in .* is 1, but must be a table/],
      ["[cerebrium]\nhardware = [1]", /^hardware in .* must be a table/],
      [
        "[cerebrium.deployment]\nshell_commands = [1]",
        /^deployment.shell_commands in .* must be a list/,
      ],
      ["[cerebrium.dependencies]\npip = ['a']", /^dependencies.pip in .* must be a table/],
      ["[cerebrium.dependencies.pip]\na = true", /package "a", is true, but must be a version/],
      [
        "[cerebrium.dependencies.paths]\npip = '../x'",
        /^dependencies.paths.pip in .* must be a path/,
      ],
      ["[cerebrium.dependencies]\npip = {a = '1'}\npaths = {pip = 'r.txt'}", /only one of the two/],
      ["[cerebrium.runtime.deepgram]", /partner service deepgram/],
      ["[cerebrium.scaling]\ncooldown = 2026-01-01", /^scaling.cooldown in .* is a date/],
      ["[cerebrium.scaling]\ncooldown = inf", /^scaling.cooldown in .* is Infinity/],
    ];
    for (const [toml, expected] of wrong)
      assert.match(
        refusal(() => fromToml(toml)),
        expected,
      );
  });
});

describe("rules across fields", () => {
  const refusals: readonly (readonly [Readonly<Record<string, unknown>>, RegExp])[] = [
    [
      { minReplicaCount: 3, maxReplicaCount: 2 },
      /^minReplicaCount is 3, but must not be above maxReplicaCount, which is 2\./,
    ],
    [
      { compute: ["CPU", "ADA_L4"] },
      /^compute is \["CPU", "ADA_L4"\], but must name types of one family/,
    ],
    [{ compute: ["INF2", "ADA_L4"] }, /AWS accelerators and NVIDIA GPUs/],
    [{ compute: "ADA_L4", gpuCount: 0 }, /^gpuCount is 0, but must be 1 to 16 for compute ADA_L4/],
    [{ scalingMetric: "cpu_utilization" }, /^scalingMetric is cpu_utilization.*at least 1/],
    [
      { scalingMetric: "memory_utilization", minReplicaCount: 1, scalingBuffer: 1 },
      /^scalingBuffer is 1, but must be 0/,
    ],
    [
      { scalingMetric: "concurrency_utilization", scalingTarget: 101 },
      /^scalingTarget is 101.*at most 100/,
    ],
    [{ runtime: "custom" }, /^runtime is "custom", but neither entrypoint nor dockerfilePath/],
    [{ runtime: "custom", entrypoint: [] }, /neither entrypoint nor dockerfilePath/],
    [{ runtime: "cortex", entrypoint: ["x"] }, /^entrypoint is \["x"\], but the runtime is cortex/],
    [
      { runtime: "cortex", dockerfilePath: "Dockerfile" },
      /^dockerfilePath is "Dockerfile", but the runtime is cortex/,
    ],
  ];
  for (const [body, expected] of refusals) {
    test(`${JSON.stringify(body)} is refused`, () =>
      assert.match(
        refusal(() => atRequest(body)),
        expected,
      ));
  }

  test("a Dockerfile that the request names means the custom runtime, unless something says another", () => {
    const body = { ...base, dockerfilePath: "./Dockerfile" };
    for (const { settings, origins } of [atRequest(body), fromToml("", body)]) {
      assert.deepEqual(
        [settings.runtime, settings.dockerfilePath, origins.runtime],
        ["custom", "Dockerfile", "api"],
      );
    }
    assert.match(
      refusal(() => fromToml("[cerebrium.runtime.cortex]", body)),
      /^dockerfilePath is "Dockerfile", but the runtime is cortex/,
    );
    assert.equal(fromToml("", { ...base, dockerfilePath: "" }).settings.runtime, "cortex");
  });

  test("what the repository may still bring is not refused at the request, but once the repository was read", () => {
    for (const body of [
      { minReplicaCount: 5 },
      { scalingTarget: 500 },
      { entrypoint: ["serve"] },
    ]) {
      atRequest(body);
      refusal(() => fromToml("", { ...base, ...body }));
    }
    fromToml("[cerebrium.scaling]\nmax_replicas = 5", { ...base, minReplicaCount: 5 });
    fromToml("[cerebrium.scaling]\nscaling_metric = 'requests_per_second'", {
      ...base,
      scalingTarget: 500,
    });
    fromToml("[cerebrium.runtime.custom]\nport = 1", { ...base, entrypoint: ["serve"] });
  });

  test("a GPU count on CPU is a warning", () => {
    const { settings, warnings } = fromToml("[cerebrium.hardware]\ncompute = 'CPU'\ngpu_count = 1");
    assert.equal(settings.gpuCount, 0);
    assert.deepEqual(warnings, [
      "hardware.gpu_count in slipway.toml is 1 and has no effect: the app runs on CPU.",
    ]);
  });

  test("a start command in a TOML file gives way to the runtime cortex in the body", () => {
    const { settings, warnings } = fromToml("[cerebrium.runtime.custom]\nentrypoint = 'serve'", {
      ...base,
      runtime: "cortex",
    });
    assert.deepEqual(settings.entrypoint, []);
    assert.equal(settings.runtime, "cortex");
    assert.match(warnings[0] ?? "", /^runtime.custom.entrypoint in slipway.toml has no effect/);
  });
});

describe("a create request", () => {
  test("unknown fields are refused with the nearest known name", () => {
    assert.match(
      refusal(() => readCreateRequest({ minReplicas: 1 })),
      /^"minReplicas" is not a field.*/,
    );
    assert.match(
      refusal(() => readCreateRequest({ memroy: 1 })),
      /did you mean memory\?/,
    );
    assert.match(
      refusal(() => readCreateRequest({ cerebrium_toml: "" })),
      /did you mean config_toml\?/,
    );
    assert.match(
      refusal(() => readCreateRequest(JSON.parse('{"__proto__": 1}'))),
      /"__proto__" is not a field/,
    );
    assert.match(
      refusal(() => readCreateRequest(JSON.parse('{"constructor": 1}'))),
      /"constructor" is not a field/,
    );
  });

  test("a bad dockerAuth is refused without showing it", () => {
    for (const dockerAuth of [
      "sesame:\0",
      "sesame",
      "sesame:",
      ":sesame",
      '{"sesame"',
      '{"auths": null, "x": "sesame"}',
      "sesame: \nsesame",
      7,
    ]) {
      const message = refusal(() => readCreateRequest({ dockerAuth }));
      assert.match(
        message,
        /^dockerAuth is not shown here, but must be Docker's config\.json as text, or name:password/,
      );
      assert.doesNotMatch(message, /sesame/);
    }
    for (const dockerAuth of [
      "{}",
      ' {"auths": {}, "credsStore": "desktop"}\n',
      "reader:sesame:2",
    ]) {
      assert.equal(readCreateRequest({ dockerAuth }).dockerAuth?.reveal(), dockerAuth);
    }
  });

  test("any JSON body is either read or refused with a fault", () => {
    const field = fc.constantFrom(...fieldNames, "nope", "__proto__");
    const bodies = fc.oneof(
      fc.jsonValue(),
      fc
        .array(fc.tuple(field, fc.oneof(fc.jsonValue(), fc.double(), anyText())))
        .map((pairs): unknown => Object.fromEntries(pairs)),
    );
    fc.assert(
      fc.property(bodies, (body) => {
        orFault(() => {
          const { fields, configToml } = readCreateRequest(body);
          resolveSettings({ body: fields, configToml, providers });
        });
      }),
      { numRuns: 2000 },
    );
  });

  test("any TOML text is either read or refused with a fault", () => {
    const keys = fieldNames.flatMap((name) => appFields[name].toml ?? []);
    const value = fc.oneof(
      fc.integer().map(String),
      fc.double().map((number) => String(number).replace("Infinity", "inf").replace("NaN", "nan")),
      fc.string().map((text) => JSON.stringify(text)),
      fc.constantFrom("true", "[]", "{}", "[1, 'a']", "2026-01-01", "12:00:00", "[[['CPU']]]"),
    );
    const line = fc.tuple(
      fc.constantFrom(
        ...keys,
        "dependencies.pip.x",
        "dependencies.paths.pip",
        "deployment.shell_commands",
      ),
      value,
    );
    const text = fc.oneof(
      fc.string(),
      fc
        .array(line)
        .map((lines) => lines.map(([key, given]) => `cerebrium.${key} = ${given}`).join("\n")),
    );
    fc.assert(
      fc.property(text, (toml) => {
        orFault(() => fromToml(toml));
      }),
      { numRuns: 2000 },
    );
  });

  test("settings do not depend on the order of fields", () => {
    const body = fc.record(
      {
        cpu: fc.double({ min: 0.25, max: 192, noNaN: true }),
        minReplicaCount: fc.integer({ min: 0, max: 5 }),
        maxReplicaCount: fc.integer({ min: 5, max: 2000 }),
        compute: fc.constantFrom("CPU", ["ADA_L4"], "INF2"),
        scalingBuffer: fc.nat(10),
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(body, (given) => {
        const turned = Object.fromEntries(Object.entries(given).toReversed());
        assert.deepEqual(atRequest(given), atRequest(turned));
      }),
    );
  });
});

function orFault(run: () => void): void {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof Fault, String(error));
    assert.ok(error.message.length < 4000);
  }
}
