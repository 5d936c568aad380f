// The process driver's builder on real Pythons, with real pip where the package index answers.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, symlinkSync } from "node:fs";
import { mkdir, readdir, readFile, readlink, rm, stat, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { after, before, type TestContext } from "node:test";
import { promisify } from "node:util";
import { BuildFailed, type BuildPlan } from "#drivers/builder.ts";
import { processArtifact } from "#drivers/process/artifact.ts";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { PythonFinder } from "#drivers/process/python-find.ts";
import type { Sandbox } from "#drivers/process/sandbox.ts";
import { appIdOf, newBuildId, newProjectId, type ProjectId } from "#lib/ids.ts";
import { drawTests } from "#test/support/drawn-cases.ts";
import { buildPlan } from "#test/support/build-plan.ts";
import { makeFolder, removeFolder, temporaryFolder } from "#test/support/folder.ts";
import { givePip, toolsBelow } from "#test/support/give-pip.ts";
import { isAlive } from "#test/support/is-alive.ts";
import { packageIndexAnswers } from "#test/support/package-index.ts";
import { until } from "#test/support/until.ts";
import { folderSource } from "#drivers/source-archive.ts";
import { processBuilder } from "./support/process-builder.ts";

const test = drawTests({ what: "kinds of builds", count: 18, max: 5 });

const registryAuth = (): Promise<null> => Promise.resolve(null);

const run = promisify(execFile);
const environment: Record<string, string> = {};
for (const [name, value] of Object.entries(process.env)) {
  if (
    value !== undefined &&
    /^(PATH|PYENV_ROOT|PIP_.*|UV_.*|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE)$|_proxy$/i.test(
      name,
    )
  )
    environment[name] = value;
}
const pythons = new PythonFinder({ environment });
/** A version that is installed here. */
let version = "";

before(async () => {
  const usable = (await pythons.all()).filter(
    (python) => python.hasPip && Number(python.version.split(".")[1]) >= 8,
  );
  version = usable.find((python) => python.version === "3.11")?.version ?? usable[0]?.version ?? "";
  assert.notEqual(version, "", "a Python with venv and pip is installed");
});

/**
 * Without a runner that has made it, pip for environments of apps is made once for all tests of
 * this file.
 */
const toolsFolder = makeFolder("tools");
after(() => removeFolder(toolsFolder));

type Files = Readonly<Record<string, string>>;

type BuilderGiven = {
  readonly commandTimeoutMs?: number;
  readonly folder?: string;
  readonly sandbox?: Sandbox;
  /** Nothing was made before. */
  readonly isFirst?: boolean;
};

function openBuilder(t: TestContext, given: BuilderGiven = {}) {
  const { folder = temporaryFolder(t, "build"), isFirst = false, ...options } = given;
  const ownTools = toolsBelow(join(folder, "builds"));
  if (!isFirst) {
    givePip(join(folder, "builds"));
    if (!existsSync(ownTools)) {
      mkdirSync(dirname(ownTools), { recursive: true });
      symlinkSync(toolsFolder, ownTools);
    }
  }
  const builder = processBuilder(folder, { ...options, pythons, toolEnvironment: environment });
  const lines: string[] = [];
  const build = async (
    files: Files,
    plan: Partial<BuildPlan> = {},
    signal = new AbortController().signal,
  ) => {
    const sourceDir = join(folder, "source");
    await rm(sourceDir, { recursive: true, force: true });
    for (const [path, content] of Object.entries(files)) {
      await mkdir(dirname(join(sourceDir, path)), { recursive: true });
      await writeFile(join(sourceDir, path), content);
    }
    const log = (_stage: string, _stream: string, text: string): number => lines.push(text);
    return processArtifact(
      await builder.build(planOf(plan), {
        source: folderSource(sourceDir),
        log,
        signal,
        registryAuth,
        secrets: new Map(),
      }),
    );
  };
  return { folder, builder, build, lines };
}

function planOf(given: Partial<BuildPlan> & { projectId?: ProjectId } = {}): BuildPlan {
  const { projectId = project, ...plan } = given;
  return buildPlan({ appId: appIdOf(projectId, "app"), pythonVersion: version, ...plan });
}

const project = newProjectId();

async function refusal(building: Promise<unknown>): Promise<string> {
  const error = await building.then(
    () => assert.fail("it was built"),
    (thrown: unknown) => thrown,
  );
  assert.ok(error instanceof BuildFailed, String(error));
  return error.message;
}

test("a plain app is built without pip, which takes seconds to make, and starts with an interpreter that is no script", async (t) => {
  const { build, lines, folder } = openBuilder(t, { isFirst: true });
  const artifact = await build({ "main.py": "def run(): return 1\n", "lib/part.py": "" });
  assert.ok(!lines.some((line) => line.includes("PIP_INSTALL_STARTED")));
  assert.deepEqual(
    await readdir(join(folder, "builds/cache/tools")).catch(() => []),
    [],
    "no pip was made",
  );
  const code =
    "import sys, main, importlib.util as u; print(sys.version_info[1], main.run(), sys.prefix, u.find_spec('pip'))";
  const { stdout } = await run(artifact.python, ["-c", code], { cwd: artifact.appDir });
  assert.deepEqual(stdout.trim().split(" "), [
    version.split(".")[1],
    "1",
    artifact.venvDir,
    "None",
  ]);
  const head = await readFile(artifact.python);
  assert.equal(head.subarray(1, 4).toString(), "ELF", "the interpreter is a program, not a shim");
  assert.ok(
    (await readdir(join(artifact.appDir, "__pycache__"))).some((name) => name.startsWith("main.")),
    "main.py is compiled",
  );
});

test("`app` in the app's folder leads to the folder itself, unless the app has one", async (t) => {
  const { build } = openBuilder(t);
  const plain = await build({ "main.py": "" });
  assert.equal(await readlink(join(plain.appDir, "app")), ".");
  assert.ok(await stat(join(plain.appDir, "app/main.py")));
  const own = await build({ "main.py": "", "app/x.py": "x" });
  assert.equal(await readFile(join(own.appDir, "app/x.py"), "utf8"), "x");
});

test("a version that the app asked for and that is not here is refused with those that are", async (t) => {
  const { build } = openBuilder(t);
  const reason = await refusal(build({ "main.py": "" }, { pythonVersion: "3.99" }));
  assert.match(reason, /^Python 3\.99 is not installed on the build machine; installed: 3\./);
  assert.ok(reason.includes(version));
});

test("a default version that is not here is replaced with a warning", async (t) => {
  const { build, lines } = openBuilder(t);
  const artifact = await build(
    { "main.py": "" },
    { pythonVersion: "3.7", isPythonVersionGiven: false },
  );
  assert.match(
    lines.join("\n"),
    new RegExp(
      `Warning: Python 3.7, the default, is not installed here: ${artifact.pythonVersion} is used`,
    ),
  );
});

test("a Dockerfile is refused, saying what to do instead", async (t) => {
  const { build } = openBuilder(t);
  assert.match(
    await refusal(build({ Dockerfile: "" }, { dockerfilePath: "Dockerfile" })),
    /the docker driver does .*remove dockerfilePath/,
  );
});

test("commands run in order in the app's folder with its own environment first on the PATH", async (t) => {
  const { build, lines, folder } = openBuilder(t);
  const artifact = await build(
    { "main.py": "" },
    {
      preBuildCommands: ["echo one > order.txt"],
      shellCommands: [
        "echo two >> order.txt; command -v python; echo $APP_NAME",
        "pip --version",
        "env | sort",
      ],
    },
  );
  assert.equal(await readFile(join(artifact.appDir, "order.txt"), "utf8"), "one\ntwo\n");
  assert.equal(artifact.venvDir, join(artifact.appDir, "../venv"));
  assert.ok(
    lines.includes(join(artifact.venvDir.replace(folder, "…"), "bin/python")),
    "not where the platform is",
  );
  assert.ok(lines.includes("app"));
  assert.ok(
    lines.some(
      (line) => line.startsWith("pip ") && line.includes(artifact.venvDir.replace(folder, "…")),
    ),
    lines.join("\n"),
  );
  assert.ok(!lines.some((line) => line.startsWith("SLIPWAY_")));
  assert.deepEqual(
    (await readdir(join(folder, "builds", artifact.appDir.split("/").at(-2) ?? ""))).sort(),
    ["app", "venv"],
  );
});

test("a command that fails ends the build with its number, its exit code and nothing left behind", async (t) => {
  const { build, lines, folder } = openBuilder(t);
  const reason = await refusal(
    build({ "main.py": "" }, { shellCommands: ["true", "echo broken >&2; exit 3"] }),
  );
  assert.equal(
    reason,
    "Command 2 of shell_commands ended with exit code 3: echo broken >&2; exit 3. It says: broken. See its output above; fix the command and build it again (POST …/apps/{app}/builds).",
  );
  assert.ok(lines.includes("broken"));
  assert.deepEqual(
    (await readdir(join(folder, "builds"))).filter((name) => name !== "cache"),
    [],
  );
});

test("a command that hangs is ended with all it started", async (t) => {
  const folder = temporaryFolder(t, "build");
  // pip for environments of apps' own is made once; that is not what is timed here.
  await openBuilder(t, { folder }).build({ "main.py": "" }, { shellCommands: ["true"] });
  const { build } = openBuilder(t, { folder, commandTimeoutMs: 8_000 });
  const mark = join(folder, "pid");
  const reason = await refusal(
    build({ "main.py": "" }, { shellCommands: [`sleep 600 & echo $! > ${mark}; wait`] }),
  );
  assert.match(reason, /took longer than 8 s: sleep 600/);
  await until(
    "the background process is gone",
    async () => !isAlive(Number(await readFile(mark, "utf8"))),
  );
});

test("a cancelled build ends at once, with all that its command started, and leaves nothing", async (t) => {
  const { build, folder } = openBuilder(t);
  const mark = join(folder, "pid");
  const cancel = new AbortController();
  const building = build(
    { "main.py": "" },
    { shellCommands: [`sleep 600 & echo $! > ${mark}.part; mv ${mark}.part ${mark}; wait`] },
    cancel.signal,
  );
  building.catch(() => undefined);
  const pid = Number(
    await until("the command runs", () => readFile(mark, "utf8"), { deadlineMs: 120_000 }),
  );
  const reason = new Error("cancelled");
  cancel.abort(reason);
  // The command takes longer than a test may.
  await assert.rejects(building, reason);
  await until("the background process is gone", () => !isAlive(pid));
  assert.deepEqual(
    (await readdir(join(folder, "builds"))).filter((name) => name !== "cache"),
    [],
  );
});

test("the processes of a build die with the platform, however it is killed", async (t) => {
  const folder = temporaryFolder(t, "guard");
  const mark = join(folder, "pid");
  const script = `
    import { runCommand } from ${JSON.stringify(join(import.meta.dirname, "../src/lib/command.ts"))};
    await runCommand({ command: ["/bin/sh", "-c", "sleep 600 & echo $! > ${mark}; wait"], cwd: "/", environment: process.env,
      signal: new AbortController().signal, timeoutMs: 60000 });`;
  const child = execFile(process.execPath, ["--input-type=module", "-e", script]);
  const pid = Number(
    await until("the command runs", async () => (await readFile(mark, "utf8")).trim()),
  );
  child.kill("SIGKILL");
  await until("the process is gone", () => !isAlive(pid));
});

test("links in the app's files stay links", async (t) => {
  const { build, folder, builder } = openBuilder(t);
  await build({ "main.py": "" });
  await symlink("main.py", join(folder, "source/alias.py"));
  const log = (): void => undefined;
  const { signal } = new AbortController();
  const given = {
    source: folderSource(join(folder, "source")),
    log,
    signal,
    registryAuth,
    secrets: new Map(),
  };
  const artifact = processArtifact(await builder.build(planOf(), given));
  assert.equal(await readlink(join(artifact.appDir, "alias.py")), "main.py");
});

test("packages are installed once for all builds with the same ones, and other projects have their own", async (t) => {
  const reason = await packageIndexAnswers();
  if (reason !== false) return t.skip(reason);
  const { build, lines, folder } = openBuilder(t);
  const requirements = ["python-slugify==8.0.4"];
  const [first, second] = await Promise.all([
    build({ "main.py": "" }, { requirements }),
    build({ "main.py": "" }, { requirements }),
  ]);
  assert.equal(first.venvDir, second.venvDir);
  assert.equal(lines.filter((line) => line === "PIP_INSTALL_STARTED").length, 1);
  const { stdout } = await run(first.python, [
    "-c",
    "import slugify; print(slugify.slugify('Hello World'))",
  ]);
  assert.equal(stdout, "hello-world\n");
  const again = openBuilder(t, { folder });
  const third = await again.build({ "main.py": "" }, { requirements });
  assert.equal(third.venvDir, first.venvDir, "a later process finds it");
  const fourth = await again.build(
    { "main.py": "" },
    { requirements, appId: appIdOf(newProjectId(), "app") },
  );
  assert.notEqual(fourth.venvDir, first.venvDir);
});

test("a build that starts clean takes no environment of an earlier one", async (t) => {
  const { build } = openBuilder(t);
  const first = await build({ "main.py": "" });
  assert.equal((await build({ "main.py": "" })).venvDir, first.venvDir);
  const clean = await build({ "main.py": "" }, { startsClean: true });
  assert.notEqual(clean.venvDir, first.venvDir);
  assert.ok(await stat(first.venvDir), "whoever uses it keeps it");
});

test("uv installs packages when it is asked for", async (t) => {
  const reason = await packageIndexAnswers();
  if (reason !== false) return t.skip(reason);
  const { build, lines } = openBuilder(t);
  const artifact = await build({ "main.py": "" }, { requirements: ["six==1.17.0"], useUv: true });
  if (lines.some((line) => line.includes("uv is not installed and cannot be")))
    return t.skip("uv cannot be installed here");
  assert.ok(lines.includes("UV_PIP_INSTALL_STARTED"), lines.join("\n"));
  await run(artifact.python, ["-c", "import six"]);
});

test("a package that does not exist fails with its name and what to do", async (t) => {
  const reason = await packageIndexAnswers();
  if (reason !== false) return t.skip(reason);
  const { build, folder } = openBuilder(t);
  const said = await refusal(build({ "main.py": "" }, { requirements: ["six==0.0.99"] }));
  assert.equal(
    said,
    "There is no six==0.0.99 that works with this Python: check its name and version under dependencies.pip, or in requirements.txt or pyproject.toml, or the pythonVersion.",
  );
  assert.deepEqual(await readdir(join(folder, "builds/cache/environments")), []);
});

test("requirements that name files of the app are installed from them, into an environment of its own", async (t) => {
  const reason = await packageIndexAnswers();
  if (reason !== false) return t.skip(reason);
  const { build } = openBuilder(t);
  const files = {
    "main.py": "",
    "part/setup.py":
      "from setuptools import setup\nsetup(name='part', version='1', py_modules=['part'])\n",
    "part/part.py": "answer = 42\n",
  };
  const artifact = await build(files, { requirements: ["./part"] });
  assert.equal(artifact.venvDir, join(artifact.appDir, "../venv"));
  assert.equal(
    (await run(artifact.python, ["-c", "import part; print(part.answer)"])).stdout,
    "42\n",
  );
});

test("collect drops what killed builds left and keeps what is used or being built", async (t) => {
  const { build, builder, folder } = openBuilder(t);
  const used = await build({ "main.py": "" });
  const dropped = await build({ "main.py": "" });
  const running = newBuildId();
  for (const name of [running, newBuildId()])
    await mkdir(join(folder, "builds", name, "app"), { recursive: true });
  await mkdir(join(folder, "builds/cache/environments/half-made-1234"), { recursive: true });
  await builder.collect(() => Promise.resolve({ artifacts: [used], building: [running] }));
  const kept = [
    join(used.appDir, ".."),
    join(folder, "builds", running),
    join(folder, "builds/cache"),
  ].map((path) => path.split("/").at(-1));
  assert.deepEqual((await readdir(join(folder, "builds"))).sort(), kept.sort());
  assert.ok(!kept.includes(dropped.appDir.split("/").at(-2)));
  assert.ok(await stat(used.venvDir));
  await assert.rejects(stat(join(folder, "builds/cache/environments/half-made-1234")));
  await builder.remove(used);
  await assert.rejects(stat(used.appDir));
});

test("in the sandbox neither commands nor packages see the platform's data, and what they make stays the app's", async (t) => {
  const folder = temporaryFolder(t, "confined");
  const sandbox = await detectSandbox(join(folder, "probe"));
  if (sandbox.kind === "none") return t.skip(`no sandbox here: ${sandbox.reason}`);
  await rm(join(folder, "probe"), { recursive: true, force: true });
  await writeFile(join(folder, "secret.key"), "do not read");
  const { build, lines } = openBuilder(t, { folder, sandbox, isFirst: true });
  const artifact = await build(
    { "main.py": "", "part/setup.py": confinedSetup(folder), "part/part.py": "answer = 42\n" },
    {
      preBuildCommands: [
        `cat ${folder}/secret.key; ls ${folder} ${folder}/builds; id -u; echo made > made.txt`,
      ],
      requirements: (await packageIndexAnswers()) === false ? ["./part"] : [],
      shellCommands: [
        "python -c 'import sys; print(sys.prefix)'",
        "cat made.txt; ps ax 2>/dev/null | wc -l",
        "cd /cortex && cp made.txt seen.txt",
      ],
    },
  );
  const text = lines.join("\n");
  assert.ok(!text.includes("do not read"), text);
  assert.ok(!text.includes("secret.key\n"), text);
  assert.ok(lines.includes(artifact.venvDir.replace(folder, "…")), text);
  assert.ok(lines.includes("made"), text);
  if (process.getuid?.() === 0) assert.ok(!lines.includes("0"), "they do not run as root");
  assert.equal(await readFile(join(artifact.appDir, "made.txt"), "utf8"), "made\n");
  assert.equal(
    await readFile(join(artifact.appDir, "seen.txt"), "utf8"),
    "made\n",
    "the code is at /cortex too",
  );
  const commandsOnly = await build(
    { "main.py": "" },
    { shellCommands: ["rm -rf __pycache__; ln -s /tmp __pycache__"] },
  );
  assert.equal(await readlink(join(commandsOnly.appDir, "__pycache__")), "/tmp");
  assert.deepEqual(
    (await readdir("/tmp")).filter((name) => name.startsWith("main.cpython")),
    [],
    "nothing is compiled through a link",
  );
  if ((await packageIndexAnswers()) !== false) return;
  const files = { "main.py": "", "part/setup.py": confinedSetup(folder), "part/part.py": "" };
  await build(files, { requirements: ["./part"] });
  const shared = await build({ "main.py": "" }, { requirements: ["six==1.17.0"] });
  await run(shared.python, ["-c", "import six"]);
});

/** A package whose installation tries to read the platform's key. */
function confinedSetup(folder: string): string {
  return `import os
from setuptools import setup
assert not os.path.exists(${JSON.stringify(`${folder}/secret.key`)}), "the key can be seen"
setup(name="part", version="1", py_modules=["part"])
`;
}
