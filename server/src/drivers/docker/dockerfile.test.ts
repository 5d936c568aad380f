// The Dockerfile that is written for a plan.
import assert from "node:assert/strict";
import { test } from "node:test";
import { buildPlan } from "#test/support/build-plan.ts";
import type { BuildPlan } from "#drivers/builder.ts";
import { appIdOf, newProjectId } from "#lib/ids.ts";
import { writeDockerfile } from "./dockerfile.ts";

const options = { user: 65_532, needsCode: false };
const appId = appIdOf(newProjectId(), "app");

function write(plan: Partial<BuildPlan>, more: Partial<typeof options> = {}) {
  return writeDockerfile(buildPlan({ appId, pythonVersion: "3.11", ...plan }), {
    ...options,
    ...more,
  });
}

function stagesOf(text: string): string[] {
  return [...text.matchAll(/^FROM (\S+) AS (\S+)$/gm)].map(([, from, name]) => `${from} ${name}`);
}

/** The script of the last RUN of a stage. */
function scriptOf(text: string, stage: string): string {
  const instructions =
    text.split(/^FROM .* AS /m).find((part) => part.startsWith(`${stage}\n`)) ?? "";
  const words = /^RUN (?:--mount=\S+ )*(\[.*)$/m.exec(instructions)?.[1] ?? "[]";
  return (JSON.parse(words) as string[])[2] ?? "";
}

test("steps follow each other from what seldom changes to what often does", () => {
  const { text, steps } = write({
    baseImage: "debian:bookworm",
    preBuildCommands: ["a"],
    aptPackages: ["ffmpeg"],
    requirements: ["six"],
    shellCommands: ["b", "c"],
  });
  assert.deepEqual(stagesOf(text), [
    "debian:bookworm base",
    "base python",
    "python before-1",
    "before-1 apt",
    "apt packages",
    "packages code",
    "code after-1",
    "after-1 after-2",
    "packages runtime",
    "after-2 app",
  ]);
  assert.deepEqual(steps.get("after-2")?.command, { list: "shell_commands", number: 2, line: "c" });
});

test("Python comes from conda where the app has conda's packages", () => {
  const { text } = write({
    condaPackages: ["numpy==1.26"],
    preBuildCommands: ["a"],
    requirements: ["six"],
  });
  assert.deepEqual(stagesOf(text).slice(1, 5), [
    "base before-1",
    "before-1 conda",
    "conda python",
    "python packages",
  ]);
  assert.match(
    scriptOf(text, "conda"),
    /create -y -q -p \S+ -c conda-forge -- 'python=3\.11' 'numpy==1\.26'/,
  );
});

test("a command reaches the shell as it was written, whatever is in it", () => {
  const line = `cat <<END && echo "it's $HOME" \\\nEND\n# no comment`;
  const { text } = write({ shellCommands: [line] });
  assert.ok(!text.includes("<<"), "a newer builder reads a here-document there");
  const script = scriptOf(text, "after-1");
  assert.ok(script.includes(`/bin/sh -c '${line.replaceAll("'", `'\\''`)}'\n`), script);
});

test("packages of apt have apt's sign for versions", () => {
  const { text } = write({ aptPackages: ["ffmpeg==7:5.1", "curl=7.88", "-o=evil"] });
  assert.match(
    scriptOf(text, "apt"),
    /install -y --no-install-recommends -- 'ffmpeg=7:5\.1' 'curl=7\.88' '-o=evil'\n/,
  );
});

test("a change of the code does not touch the packages, unless they are among the code", () => {
  const plan = { requirements: ["./lib"] };
  const mount = "type=bind,source=code,target=/cortex,rw";
  assert.ok(!write(plan).text.includes(mount));
  assert.ok(write(plan, { needsCode: true }).text.includes(mount));
});

test("the image runs the runtime, or the app's own server, as the user", () => {
  assert.match(
    write({}).text,
    /CMD \["\/opt\/venv\/bin\/python","\/opt\/slipway\/start\.py"\]\n(?:.*\n)*USER 65532:65532\n$/,
  );
  const custom = write({ runtime: "custom", entrypoint: ["uvicorn", "main:app"] }).text;
  assert.match(custom, /ENTRYPOINT \[\]\nCMD \["uvicorn","main:app"\]/);
  assert.ok(!custom.includes("/opt/slipway"));
});

test("neither the variables of the build nor its number are in the image", () => {
  const plan = buildPlan({
    appId,
    pythonVersion: "3.11",
    environment: { APP_NAME: "shown-nowhere" },
  });
  const { text } = writeDockerfile(plan, options);
  assert.ok(!text.includes("shown-nowhere"));
  assert.ok(!/^(?:ARG|LABEL)/m.test(text));
});
