// What a build will do, decided from settings and files.
import assert from "node:assert/strict";
import { test } from "node:test";
import { resolveSettings } from "#apps/settings.ts";
import type { Capabilities } from "#drivers/driver.ts";
import { appIdOf, newBuildId, newProjectId } from "#lib/ids.ts";
import { widePlacement } from "#test/support/wide-placement.ts";
import { planBuild, type PlannedBuild } from "./build-plan.ts";

const projectId = newProjectId();
const none: Capabilities = {
  dockerfile: false,
  baseImage: false,
  aptPackages: false,
  condaPackages: false,
  memoryLimit: false,
  cpuLimit: false,
  egress: { canLimit: false, reason: "as a test" },
  storagePaths: true,
  containerRuntimes: null,
};
const all: Capabilities = {
  ...none,
  dockerfile: true,
  baseImage: true,
  aptPackages: true,
  condaPackages: true,
  memoryLimit: true,
  cpuLimit: true,
};

type Given = {
  body?: Record<string, unknown>;
  toml?: string;
  files?: Record<string, string>;
  capabilities?: Capabilities;
  hasDockerAuth?: boolean;
  readonly isRebuild?: boolean;
};

function plan(given: Given): PlannedBuild | string {
  const {
    body = {},
    toml = "",
    files = { "main.py": "" },
    capabilities = all,
    hasDockerAuth = false,
  } = given;
  const request = { name: "app", gitRepo: "acme/app", ...body };
  const { settings } = resolveSettings({
    body: request,
    configToml: toml,
    repositoryToml: null,
    providers: [],
  });
  const planned = planBuild({
    buildId: newBuildId(),
    projectId,
    appId: appIdOf(projectId, "app"),
    settings,
    isPythonVersionGiven: false,
    hasDockerAuth,
    capabilities,
    pools: widePlacement(["CPU"]).all,
    driver: "process",
    isRebuild: given.isRebuild ?? false,
    files: {
      readText: (path) => files[path] ?? null,
      has: (path) => files[path] !== undefined,
      names: () => Object.keys(files),
      pythonProblem: () => null,
    },
  });
  return planned.ok ? planned.value : planned.reason;
}

function refusal(given: Given): string {
  const made = plan(given);
  assert.ok(typeof made === "string", "it was planned");
  return made;
}

function planned(given: Given): PlannedBuild {
  const made = plan(given);
  assert.ok(typeof made !== "string", typeof made === "string" ? made : "");
  return made;
}

const uvicorn = { runtime: "custom", entrypoint: ["uvicorn", "main:app"] };

test("packages come from the table, else the named file, else requirements.txt", () => {
  const files = { "main.py": "", "requirements.txt": "usual\n", "deps.txt": "named\n" };
  const table = '[cerebrium.dependencies.pip]\ninline = "1"\n';
  const path = '[cerebrium.dependencies.paths]\npip = "deps.txt"\n';
  assert.deepEqual(planned({ files, toml: table }).plan.requirements, ["inline==1"]);
  assert.match(
    planned({ files, toml: table }).notes.join(),
    /those in requirements\.txt are not installed/,
  );
  assert.deepEqual(planned({ files, toml: path }).plan.requirements, ["named"]);
  const usual = planned({ files });
  assert.deepEqual(usual.plan.requirements, ["usual"]);
  assert.match(usual.notes.join(), /those in requirements\.txt are installed/);
  assert.deepEqual(planned({}).plan.requirements, []);
  assert.match(refusal({ toml: path }), /deps\.txt.* is not in the app's folder/);
});

test("after requirements.txt come uv.lock and pyproject.toml, unless the settings name one of them", () => {
  const files = {
    "main.py": "",
    "requirements.txt": "six\n",
    "pyproject.toml":
      '[project]\nname = "a"\ndependencies = ["idna"]\n[dependency-groups]\ngpu = ["torch"]\n',
    "uv.lock": "version = 1\n",
  };
  const { "requirements.txt": _, ...withoutList } = files;
  const { "uv.lock": _lock, ...withoutLock } = withoutList;
  const made = (given: Given) => {
    const planned = plan(given);
    if (typeof planned === "string") return planned;
    return [planned.plan.requirements, planned.plan.project?.isLocked ?? null, planned.notes];
  };
  const said = (what: string): string =>
    `The settings list no packages: those in ${what} are installed.`;
  assert.deepEqual(made({ files }), [["six"], null, [said("requirements.txt")]]);
  assert.deepEqual(made({ files: withoutList }), [[], true, [said("uv.lock")]]);
  assert.deepEqual(made({ files: withoutLock }), [[], false, [said("pyproject.toml")]]);
  const paths = (file: string): string => `[cerebrium.dependencies.paths]\npip = "${file}"\n`;
  assert.deepEqual(made({ files, toml: paths("./uv.lock") }), [[], true, [said("uv.lock")]]);
  assert.match(
    String(made({ files: withoutLock, toml: paths("uv.lock") })),
    /names uv\.lock, which is not there/,
  );
  const groups = made({ files: withoutLock, toml: '[cerebrium.dependencies]\ngroups = ["gpu"]\n' });
  assert.deepEqual(groups, [
    [],
    false,
    ["The settings list no packages: those in pyproject.toml are installed, with gpu."],
  ]);
  const table = made({ files: withoutLock, toml: '[cerebrium.dependencies.pip]\nsix = "1"\n' });
  assert.deepEqual(table, [["six==1"], null, []]);
  const custom = { body: { runtime: "custom", entrypoint: ["uvicorn", "a:b"] } };
  assert.deepEqual((made({ files: withoutLock, ...custom }) as unknown[])[0], ["uvicorn"]);
  const own = {
    ...withoutLock,
    "pyproject.toml": '[project]\ndependencies = ["uvicorn[standard]>=0.3"]\n',
  };
  assert.deepEqual((made({ files: own, ...custom }) as unknown[])[0], []);
  const foreign = plan({ files: { "main.py": "", Pipfile: "" } });
  assert.match(
    String((foreign as PlannedBuild).warnings),
    /^Pipfile is not installed: make a requirements\.txt/,
  );
});

test("a requirements.txt that a client has made of the table is not said to be left out", () => {
  const toml =
    '[cerebrium.dependencies.pip]\nsix = "1.16.0"\nNumPy = "latest"\nidna = ">=3,<4"\ntoml = "~=0.10"\n';
  const notes = (list: string): readonly string[] => {
    const planned = plan({ toml, files: { "main.py": "", "requirements.txt": list } });
    return typeof planned === "string" ? [planned] : planned.notes;
  };
  for (const list of [
    "idna>=3,<4\nnumpy\nsix==1.16.0\ntoml==~=0.10\n",
    "six==1.16.0\r\nNumPy\r\nidna >= 3, < 4\r\ntoml~=0.10",
  ])
    assert.deepEqual(notes(list), []);
  for (const list of [
    "six==1.16.0\n",
    "six==1.16.0\nnumpy\nidna>=3,<4\ntoml~=0.10\ntorch\n",
    "-r nowhere.txt",
  ])
    assert.deepEqual(notes(list), [
      "The settings list packages: those in requirements.txt are not installed.",
    ]);
});

test("an entrypoint of uvicorn gets uvicorn, unless the app lists it in whatever spelling", () => {
  assert.deepEqual(planned({ body: uvicorn }).plan.requirements, ["uvicorn"]);
  assert.deepEqual(
    planned({ body: { ...uvicorn, entrypoint: ["python3", "-m", "uvicorn", "main:app"] } }).plan
      .requirements,
    ["uvicorn"],
  );
  const toml = '[cerebrium.dependencies.pip]\n"Uvicorn[standard]" = "latest"\n';
  assert.deepEqual(planned({ body: uvicorn, toml }).plan.requirements, ["Uvicorn[standard]"]);
  assert.deepEqual(
    planned({ body: { ...uvicorn, entrypoint: ["python", "main.py"] } }).plan.requirements,
    [],
  );
});

test("an entrypoint of gunicorn gets gunicorn beside the app's packages, but not where a base image has all of them", () => {
  const body = { runtime: "custom", entrypoint: ["gunicorn", "app:app"] };
  assert.deepEqual(planned({ body, files: { "requirements.txt": "flask\n" } }).plan.requirements, [
    "flask",
    "gunicorn",
  ]);
  assert.deepEqual(
    planned({ body, files: { "requirements.txt": "Gunicorn>=20\n" } }).plan.requirements,
    ["Gunicorn>=20"],
  );
  assert.deepEqual(planned({ body }).plan.requirements, []);
});

test("blank commands are none", () => {
  const { plan: made } = planned({
    toml: '[cerebrium.deployment]\nshell_commands = ["", " ", "make"]\n',
  });
  assert.deepEqual(made.shellCommands, ["make"]);
});

test("a line for pip that names a variable which is no build secret is a warning", () => {
  const files = {
    "main.py": "",
    "requirements.txt": "a==${A_VERSION}\n--index-url https://${B}@x.example/simple\n",
  };
  const [warning, ...more] = planned({ files, body: { buildSecrets: ["B"] } }).warnings;
  assert.match(
    warning ?? "",
    /use \$\{A_VERSION\}, but the build has no secret of that name.*below \[slipway\.build\] in the TOML file: secrets = \["A_VERSION"\]\.$/,
  );
  assert.deepEqual(more, []);
  assert.deepEqual(planned({ files, body: { buildSecrets: ["A_VERSION", "B"] } }).warnings, []);
});

test("building the same again with secrets starts clean, since their values may be new", () => {
  const clean = (body: object, isRebuild: boolean): boolean =>
    planned({ body: { ...body }, isRebuild }).plan.startsClean;
  assert.deepEqual(
    [clean({ buildSecrets: ["A"] }, true), clean({ buildSecrets: ["A"] }, false)],
    [true, false],
  );
  assert.equal(clean({}, true), false);
});

test("there must be something to start", () => {
  assert.match(refusal({ files: {} }), /^There is no main\.py in the repository's root/);
  assert.match(refusal({ files: {}, body: { gitPath: "apps/x" } }), /in the folder apps\/x/);
  assert.equal(
    typeof plan({ files: {}, toml: '[cerebrium.deployment]\nshell_commands = ["make main.py"]\n' }),
    "object",
  );
  assert.match(
    refusal({ body: { runtime: "custom", dockerfilePath: "Dockerfile" } }),
    /there is no such file/,
  );
  const elsewhere = { body: { dockerfilePath: "Dockerfile" }, files: { "docker/Dockerfile": "" } };
  assert.match(
    refusal(elsewhere),
    /no such file in the repository's root\. There is docker\/Dockerfile\.$/,
  );
});

test("a runtime of containers has no effect with processes, and must be there with an engine", () => {
  const body = { containerRuntime: "v2" };
  assert.match(
    planned({ body }).warnings.join(),
    /containerRuntime is v2, which has no effect with the process driver/,
  );
  const containerRuntimes = { v1: "runc", v2: "runsc", present: ["runc"] };
  assert.match(
    refusal({ body, capabilities: { ...all, containerRuntimes } }),
    /^containerRuntime is v2, which means the runtime runsc here \(SLIPWAY_RUNTIME_V2\), .*only runc\. Use another value or none/,
  );
  assert.deepEqual(
    planned({ body: { containerRuntime: "v1" }, capabilities: { ...all, containerRuntimes } })
      .warnings,
    [],
  );
});

test("credentials for registries are warned of where no image is pulled", () => {
  assert.deepEqual(planned({ hasDockerAuth: true }).warnings, []);
  const processes = { ...all, baseImage: false };
  assert.deepEqual(planned({ capabilities: processes }).warnings, []);
  assert.deepEqual(planned({ hasDockerAuth: true, capabilities: processes }).warnings, [
    "dockerAuth is set, which has no effect with the process driver: it pulls no images; the docker driver does (SLIPWAY_DRIVER=docker). It stays stored, encrypted, until it is set to null (PATCH …/apps/{app}).",
  ]);
});

test("what the driver cannot do is said with what to do instead; a Dockerfile or a compute type that is not here ends the build", () => {
  const toml =
    '[cerebrium.deployment]\ndocker_base_image_url = "nvidia/cuda"\n[cerebrium.dependencies.apt]\nffmpeg = "latest"\n[cerebrium.dependencies.conda]\ncuda = "12"\n';
  const { warnings } = planned({ toml, capabilities: none });
  for (const expected of [
    /nvidia\/cuda.*the docker driver does.*installed on the machine/,
    /ffmpeg.*the docker driver does.*install them there/,
    /cuda==12.*the docker driver does.*dependencies\.pip/,
    /does not enforce cpu and memory of replicas here/,
  ]) {
    assert.ok(
      warnings.some((warning) => expected.test(warning)),
      `${expected} in ${warnings.join("\n")}`,
    );
  }
  assert.deepEqual(planned({ toml }).warnings, []);
  assert.match(
    refusal({ body: { compute: ["HOPPER_H100", "HOPPER_H200"] } }),
    /^The app requests compute HOPPER_H100 or HOPPER_H200, but this platform has only CPU\. Request a compute type that/,
  );
  const files = { Dockerfile: "FROM scratch\n" };
  const body = { runtime: "custom", dockerfilePath: "Dockerfile" };
  assert.match(
    refusal({ files, body, capabilities: none }),
    /process driver does not build Dockerfiles; the docker driver does .*remove dockerfilePath/,
  );
  const closed = { toml: '[cerebrium.deployment]\negress_cidrs = ["203.0.113.0/24"]\n' };
  assert.match(
    refusal(closed),
    /^egressCidrs is set, but what an app reaches cannot be limited here: as a test\./,
  );
  assert.ok(
    planned({ ...closed, capabilities: { ...all, egress: { canLimit: true, allowed: [] } } }),
  );
});
