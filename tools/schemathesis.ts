// `node tools/schemathesis.ts [examples] [phases]`: holds a whole platform to the OpenAPI document
// with Schemathesis, which draws requests of its own. Installs it from PyPI into
// node_modules/.cache and prints what it finds; without PyPI it is skipped.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createdApp } from "@slipway/contract/answers.ts";
import { PlatformProcess } from "@slipway/server/test/support/platform-process.ts";
import { projectDir } from "#tidy/tree.ts";

const version = "4.9.5";
/** Newer ones lack what hypothesis-jsonschema 0.23.1 calls. */
const hypothesisVersion = "6.140.3";
const folder = join(projectDir, "node_modules/.cache", `schemathesis-${version}`);
const program = join(folder, "bin/schemathesis");
const installMs = 300_000;
const runMs = 3_600_000;

/**
 * What it checks. That valid requests are accepted is not among it, as some fields exclude each
 * other; nor that invalid ones are refused: it counts some valid ones among them, and
 * `server/test/api-fuzz.test.ts` checks that with a validator.
 */
const checks = [
  "not_a_server_error",
  "status_code_conformance",
  "content_type_conformance",
  "response_schema_conformance",
  "unsupported_method",
  "ignored_auth",
];
/** Others ask about what these delete; and a log that is followed never ends. */
const excluded = ["deleteProject", "deleteApp", "getAppLogs", "getBuildLogs", "getRollOut"];

const [examples = "20", phases = "examples,coverage,fuzzing"] = process.argv.slice(2);
const missing = await install();
if (missing === null) process.exitCode = await run();
else console.log(`Skipped: Schemathesis cannot be installed. ${missing}`);

/** Why it cannot be installed; null: it is there. */
async function install(): Promise<string | null> {
  if (existsSync(program)) return null;
  const packages = [`schemathesis==${version}`, `hypothesis==${hypothesisVersion}`];
  const commands: readonly (readonly [string, ...string[]])[] = [
    ["python3", "-m", "venv", folder],
    [join(folder, "bin/pip"), "install", "--quiet", ...packages],
  ];
  for (const [name, ...rest] of commands) {
    const { status, stderr, error } = spawnSync(name, rest, {
      encoding: "utf8",
      timeout: installMs,
    });
    if (status === 0) continue;
    await rm(folder, { recursive: true, force: true });
    return error?.message ?? stderr.trim().split("\n").at(-1) ?? name;
  }
  return null;
}

/** The exit code of Schemathesis against a platform of its own. */
async function run(): Promise<number> {
  const platform = new PlatformProcess(await mkdtemp(join(tmpdir(), "slipway-schemathesis-")), {
    SLIPWAY_DEPLOYS_PER_MINUTE: "100000",
    SLIPWAY_FAILED_TOKENS_PER_MINUTE: "1000000",
  });
  try {
    await platform.restart();
    const { baseUrl, serviceAccountToken } = platform.bootstrap;
    const config = await writeConfig(platform);
    const document = join(projectDir, "contract/openapi.json");
    const authorization = `Authorization: Bearer ${serviceAccountToken}`;
    const given = [
      "--config-file",
      config,
      "run",
      document,
      "--url",
      baseUrl,
      "--header",
      authorization,
      "--no-color",
      "--checks",
      checks.join(","),
      "--max-examples",
      examples,
      "--phases",
      phases,
      "--continue-on-failure",
      "--generation-database",
      "none",
      "--request-timeout",
      "20",
      ...excluded.flatMap((id) => ["--exclude-operation-id", id]),
    ];
    const env = { PATH: process.env["PATH"] ?? "", HOME: folder };
    const { status } = spawnSync(program, given, {
      stdio: "inherit",
      cwd: folder,
      timeout: runMs,
      env,
    });
    return status ?? 1;
  } finally {
    await platform.remove();
  }
}

/** Parameters that lead to something. */
async function writeConfig(platform: PlatformProcess): Promise<string> {
  const { projectId } = platform.bootstrap;
  const app = { name: "drawn", gitRepo: "acme/none" };
  const created = await platform.api("POST", `/v2/projects/${projectId}/apps/git`, app);
  const { appId, buildId } = createdApp.parse(created.body);
  const path = {
    project_id: projectId,
    app_id: appId,
    build_id: buildId,
    host: "github.com",
    release: "1",
  };
  const lines = Object.entries(path).map(([name, value]) => `"path.${name}" = "${value}"`);
  const file = join(platform.dataDir, "schemathesis.toml");
  await writeFile(file, ["[parameters]", ...lines, ""].join("\n"));
  return file;
}
