// Images of apps, built by a real Docker engine.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Docker from "dockerode";
import { BuildFailed } from "#drivers/builder.ts";
import type { DockerArtifact } from "#drivers/docker/artifact.ts";
import { labels } from "#drivers/docker/container-spec.ts";
import { findClient } from "#drivers/docker/docker-client.ts";
import { toolEnvironment } from "#test/support/build-queue.ts";
import {
  baseImage,
  makeBase,
  noEngine,
  openEngine,
  openRegistry,
} from "#test/support/docker-engine.ts";
import { programsIn, runDocker, type Engine } from "#test/support/dockerd.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { imageBuilds, type ImageBuilds } from "#test/support/image-builds.ts";
import { packageIndexAnswers } from "#test/support/package-index.ts";
import { until } from "#test/support/until.ts";
import { newBuildId } from "#lib/ids.ts";
import { startOwnEngine } from "#test/support/own-engine.ts";
import { drawTests } from "#test/support/drawn-cases.ts";
import { Secret } from "#lib/secret.ts";

const test = drawTests({ what: "kinds of images", count: 12, max: 6 });

const skip = await noEngine();
const skipPackages = skip === false ? await packageIndexAnswers() : skip;

/** What the app may do with its files, in one run of the image. */
const look = `id -u; pwd; touch /cortex/own /home/app/own && echo writable
rm /opt/venv/pyvenv.cfg 2>/dev/null || echo kept; ls app/main.py made.txt; command -v python`;

test(
  "a cortex app gets its packages, serves without being root, and builds only its code anew",
  { skip: skipPackages },
  async (t) => {
    const engine = await openEngine();
    const builds = imageBuilds(t, engine);
    const lines: string[] = [];
    // The engine repeats steps that follow one which another build, still in progress, was the
    // first to run.
    const own = makeBase(t, engine, "own");
    const plan = {
      baseImage: own,
      requirements: ["six==1.16.0"],
      shellCommands: ["echo made > made.txt"],
    };
    const main =
      "import six\n\ndef hello(name: str):\n    return f'hello {name} {six.__version__}'\n";
    const artifact = await builds.build({ "main.py": main }, { plan, lines });
    assert.equal(artifact.pythonVersion, "3.11");
    assert.ok(lines.includes("dependencies stdout PIP_INSTALL_STARTED"), lines.join("\n"));
    assert.match(lines.at(-1) ?? "", /^code platform Image size: \d+\.\d\d MB$/);
    const seen = runDocker(engine, "run", "--rm", artifact.image, "sh", "-c", look);
    const expected = [
      "/cortex",
      "writable",
      "kept",
      "app/main.py",
      "made.txt",
      "/opt/venv/bin/python",
    ];
    assert.deepEqual(seen.split("\n"), [String(artifact.user), ...expected]);
    const again: string[] = [];
    const changed = await builds.build(
      { "main.py": main.replace("hello {", "goodbye {") },
      { plan, lines: again },
    );
    const cached = again
      .filter((line) => line.includes(" CACHED: "))
      .map((line) => line.replace(/^.* CACHED: /, ""));
    const steps = [`Base image ${own}`, "Python 3.11", "Python packages, with pip", "The runtime"];
    assert.deepEqual(cached.sort(), steps.sort(), again.join("\n"));
    assert.equal(await callHello(engine, changed.image), '"goodbye you 1.16.0"');
  },
);

test(
  "packages are installed by uv when useUv is set, and a clean start repeats each step",
  { skip: skipPackages },
  async (t) => {
    const engine = await openEngine();
    const builds = imageBuilds(t, engine);
    const lines: string[] = [];
    const plan = { requirements: ["six==1.17.0"], useUv: true };
    await builds.build({ "main.py": "" }, { plan, lines });
    assert.ok(lines.includes("dependencies stdout UV_PIP_INSTALL_STARTED"), lines.join("\n"));
    const again: string[] = [];
    await builds.build({ "main.py": "" }, { plan: { ...plan, startsClean: true }, lines: again });
    assert.deepEqual(
      again.filter((line) => / CACHED: (?!Base image)/.test(line)),
      [],
    );
  },
);

/** The result of the app's function in a container. */
async function callHello(engine: Engine, image: string): Promise<string> {
  const variables = [
    "SLIPWAY_LISTEN=0.0.0.0:8000",
    "SLIPWAY_CONCURRENCY=1",
    "SLIPWAY_GRACE_SECONDS=1",
  ];
  const id = runDocker(engine, "run", "--detach", ...variables.map((one) => `--env=${one}`), image);
  try {
    const address = runDocker(engine, "inspect", "--format={{.NetworkSettings.IPAddress}}", id);
    const request = { method: "POST", body: JSON.stringify({ name: "you" }) };
    const answer = await until("the app answers", () =>
      fetch(`http://${address}:8000/hello`, request),
    );
    return JSON.stringify(((await answer.json()) as { result: unknown }).result);
  } finally {
    runDocker(engine, "rm", "--force", id);
  }
}

test("an app's own Dockerfile decides, and its .dockerignore is honoured", { skip }, async (t) => {
  const engine = await openEngine();
  const builds = imageBuilds(t, engine);
  const lines: string[] = [];
  const files = {
    ".dockerignore": "secret.txt\n",
    "secret.txt": "x",
    "docker/own": dockerfile('CMD ["ls"]'),
  };
  const plan = {
    runtime: "custom",
    dockerfilePath: "docker/own",
    aptPackages: ["ffmpeg"],
  } as const;
  const artifact = await builds.build(files, { plan, lines });
  // The list of the settings is there for a Dockerfile that copies it, as the published client
  // writes it.
  assert.equal(runDocker(engine, "run", "--rm", artifact.image), "docker\nmade.txt\npkglist.txt");
  // A replica runs as the project's user, who writes beside the code where the guide's line is.
  const write = ["--user", "20001:20001", "--entrypoint", "touch"] as const;
  assert.throws(() => runDocker(engine, "run", "--rm", ...write, artifact.image, "new"), /denied/);
  const open = { "docker/own": dockerfile('RUN chmod -R a+rwX /srv/app\nCMD ["ls"]') };
  const { image } = await builds.build(open, { plan });
  runDocker(engine, "run", "--rm", ...write, image, "new");
  assert.match(
    lines.join("\n"),
    /plan platform The image is built from docker\/own\. Not used with a Dockerfile: dependencies\.apt\./,
  );
  assert.match(lines.join("\n"), /commands platform Step \d\/\d: RUN echo app > made\.txt/);
  await refused(
    builds.build({ "docker/own": dockerfile("CMD []") }, { plan }),
    /own has neither CMD nor ENTRYPOINT, and the app has no entrypoint/,
  );
  await refused(
    builds.build({ "docker/own": dockerfile("RUN exit 7") }, { plan }),
    /^Step \d\/\d: RUN exit 7: this step ended with exit code 7\. .*Fix the Dockerfile/,
  );
  await refused(
    builds.build({ "docker/own": "FORM x" }, { plan }),
    /^The Dockerfile cannot be read: line 1: unknown instruction: FORM/,
  );
});

function dockerfile(end: string): string {
  return `FROM ${baseImage}\nARG APP_NAME\nWORKDIR /srv/app\nCOPY . .\nRUN echo $APP_NAME > made.txt\n${end}\n`;
}

function isListed(engine: Engine, image: string): boolean {
  return runDocker(engine, "image", "ls", "--quiet", "--no-trunc").includes(image);
}

async function refused(build: Promise<unknown>, form: RegExp): Promise<void> {
  await assert.rejects(build, (error) => {
    assert.ok(error instanceof BuildFailed, String(error));
    assert.match(error.message, form);
    return true;
  });
}

test(
  "a private base image is pulled with the app's credentials, which stay nowhere",
  { skip },
  async (t) => {
    const engine = await openEngine();
    const { username, password, push, host } = await openRegistry(t);
    const privateImage = push(engine, baseImage, "team/base:one").replace(/@.*/, "");
    const lines: string[] = [];
    const builds = imageBuilds(t, engine, {
      registry: { name: `${host}/apps`, auth: new Secret(`${username}:${password}`) },
    });
    const plan = { baseImage: privateImage };
    const auth = `${username}:${password}`;
    await refused(
      builds.build({ "main.py": "" }, { plan, lines }),
      /cannot be pulled: it may need credentials, and the app has no dockerAuth/,
    );
    const artifact = await builds.build({ "main.py": "" }, { plan, auth, lines });
    const wrong = JSON.stringify({
      auths: { [host]: { username, password: "wrong" } },
      credsStore: "none",
    });
    await refused(
      builds.build({ "main.py": "" }, { plan, auth: wrong, lines }),
      /cannot be pulled: the app's dockerAuth is not accepted/,
    );
    assert.match(artifact.reference ?? "", new RegExp(`^${host}/apps@sha256:[0-9a-f]{64}$`));
    await refused(
      builds.build({ "main.py": "" }, { plan: { baseImage: artifact.reference ?? "" } }),
      /cannot be pulled: it may need credentials, and the app has no dockerAuth/,
    );
    const history =
      runDocker(engine, "history", "--no-trunc", artifact.image) +
      runDocker(engine, "inspect", artifact.image);
    const encoded = Buffer.from(auth).toString("base64");
    for (const word of [password, encoded]) {
      assert.ok(
        !`${lines.join("\n")}${history}`.includes(word),
        "a log or the image holds the credentials",
      );
      // Files of other tests' containers go while they are searched, which grep counts as a
      // failure.
      const found = spawnSync("grep", ["-rslF", word, engine.dataRoot, builds.buildsDir], {
        encoding: "utf8",
      });
      assert.equal(found.stdout, "");
    }
  },
);

test(
  "an image that somebody has removed is pulled from the registry, and is gone without one",
  { skip },
  async (t) => {
    const engine = await openEngine();
    const { username, password, host } = await openRegistry(t);
    const registry = { name: `${host}/apps`, auth: new Secret(`${username}:${password}`) };
    const builds = imageBuilds(t, engine, { registry });
    const artifact = await builds.build({ "main.py": "" });
    const isThere = (of: DockerArtifact): Promise<boolean> =>
      builds.builder.isThere(of, { signal: new AbortController().signal });
    for (const isLost of [false, true]) {
      if (isLost) await builds.builder.remove(artifact);
      assert.equal(isListed(engine, artifact.image), !isLost);
      assert.equal(await isThere(artifact), true);
      assert.equal(isListed(engine, artifact.image), true);
    }
    await builds.builder.remove(artifact);
    for (const reference of [null, `${host}/apps@sha256:${"0".repeat(64)}`])
      assert.equal(await isThere({ ...artifact, reference }), false);
  },
);

test(
  "a private image that another project has pulled is not given to who names its digest",
  { skip },
  async (t) => {
    const engine = await openEngine();
    const { username, password, push } = await openRegistry(t);
    const image = push(engine, baseImage, "team/secret:one");
    const buildId = newBuildId();
    const auth = `${username}:${password}`;
    const builds = imageBuilds(t, engine);
    const files = { "main.py": "" };
    await builds.build(files, { plan: { baseImage: image }, auth });
    const noAuth = /cannot be pulled: it may need credentials, and the app has no dockerAuth/;
    for (const name of [image, image.replace(/@.*/, "")]) {
      await refused(builds.build(files, { plan: { baseImage: name } }), noAuth);
    }
    const own = { runtime: "custom", dockerfilePath: "Dockerfile" } as const;
    for (const text of [
      `FROM ${image}\nCMD ["ls"]`,
      `FROM ${baseImage}\nCOPY --from=${image} /etc/passwd /\nCMD ["ls"]`,
    ]) {
      await refused(builds.build({ Dockerfile: text }, { plan: own }), noAuth);
    }
    const [name, digest] = image.split("@sha256:");
    const composed = `ARG END=${digest}\nFROM ${name}@sha256:$END\nCMD ["ls"]`;
    await refused(
      builds.build({ Dockerfile: composed }, { plan: own }),
      /a digest that the Dockerfile composes/,
    );
    const { image: id } = await builds.build(files, { plan: { baseImage: image, buildId }, auth });
    const tags = runDocker(engine, "inspect", "--format={{.RepoTags}}", id);
    assert.match(tags, /slipway-build:/);
    assert.ok(!tags.includes(buildId), "the image has a name that others can know");
  },
);

test("a cancelled build leaves no program, container or folder", { skip }, async (t) => {
  const engine = await openEngine();
  const builds = imageBuilds(t, engine);
  const lines: string[] = [];
  const cancel = new AbortController();
  const plan = { shellCommands: ["echo began; exec sleep 86399"] };
  const build = builds.build({ "main.py": "" }, { plan, lines, signal: cancel.signal });
  const failing = assert.rejects(build, /the person changed their mind/);
  await until("the command runs", () => lines.includes("commands stdout began") && sleepers() > 0, {
    deadlineMs: 120_000,
  });
  cancel.abort(new Error("the person changed their mind"));
  await failing;
  await until("the command is gone", () => sleepers() === 0);
  assert.deepEqual(readdirSync(builds.buildsDir), []);
  assert.equal(
    runDocker(
      engine,
      "image",
      "ls",
      "--quiet",
      `--filter=label=${labels.instance}=${builds.installationId}`,
    ),
    "",
  );
});

test(
  "a build can be cancelled while it installs, exports and pushes, and leaves nothing",
  { skip },
  async (t) => {
    // Build steps of this engine cannot reach a package server, and would wait a long time for one.
    const { current: engine } = await startOwnEngine(t);
    const { username, password, host } = await openRegistry(t);
    const registry = { name: `${host}/team/apps`, auth: new Secret(`${username}:${password}`) };
    const large = dockerfile("RUN head -c 100000000 /dev/urandom > /large\nCMD ['true']");
    const cases = [
      { plan: { aptPackages: ["hello"] }, files: {}, at: "dependencies platform apt: hello" },
      { plan: { requirements: ["six"] }, files: {}, at: "dependencies stdout PIP_INSTALL_STARTED" },
      {
        plan: { dockerfilePath: "own" },
        files: { own: large },
        at: "code platform Exporting to image",
      },
      {
        plan: { dockerfilePath: "own" },
        files: { own: large },
        at: `code platform Pushing to ${registry.name}`,
      },
    ];
    for (const { plan, files, at } of cases) {
      const builds = imageBuilds(t, engine, { registry });
      const lines: string[] = [];
      const cancel = new AbortController();
      const failing = assert.rejects(
        builds.build({ "main.py": "", ...files }, { plan, lines, signal: cancel.signal }),
        /the person changed their mind/,
      );
      await until(at, () => lines.includes(at), { deadlineMs: 120_000 }).catch((error: unknown) => {
        throw new Error(lines.join("\n"), { cause: error });
      });
      cancel.abort(new Error("the person changed their mind"));
      await failing;
      await until(`nothing runs after: ${at}`, () => programsIn(engine).length === 0);
      assert.deepEqual(readdirSync(builds.buildsDir), []);
      const ours = `--filter=label=${labels.instance}=${builds.installationId}`;
      // The engine may finish an export that nobody waits for any more; the next collection removes
      // what comes of it.
      await until(`no image is left after: ${at}`, async () => {
        await builds.collectAll();
        return runDocker(engine, "image", "ls", "--quiet", ours) === "";
      });
    }
  },
);

function sleepers(): number {
  const pids = readdirSync("/proc").filter(
    (name) => /^\d+$/.test(name) && existsSync(`/proc/${name}/cmdline`),
  );
  return pids.filter((pid) => commandOf(pid) === "sleep\x0086399\0").length;
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

test("a failed step is named with what to do about it", { skip: skipPackages }, async (t) => {
  const engine = await openEngine();
  const builds = imageBuilds(t, engine);
  const lines: string[] = [];
  const files = { "main.py": "" };
  const failing = (plan: Parameters<typeof builds.build>[1] & object, form: RegExp) =>
    refused(builds.build(files, { lines, ...plan }), form);
  await failing(
    { plan: { shellCommands: ["true", "echo broken; exit 3"] } },
    /^Command 2 of shell_commands ended with exit code 3: echo broken; exit 3\. It says: broken\. See/,
  );
  await failing(
    { plan: { requirements: ["slipway-has-no-such-package==1"], shellCommands: ["true"] } },
    /^There is no slipway-has-no-such-package==1 that works with this Python/,
  );
  const unreachable = {
    ...toolEnvironment,
    UV_PYTHON_INSTALL_MIRROR: "http://127.0.0.1:1",
    UV_HTTP_RETRIES: "0",
  };
  const oldPython = imageBuilds(t, engine, { toolEnvironment: unreachable }).build(files, {
    plan: { pythonVersion: "3.8" },
  });
  await refused(
    oldPython,
    /^Python 3\.8 is neither in the base image nor .* UV_PYTHON_INSTALL_MIRROR/,
  );
  await failing(
    { plan: { aptPackages: ["slipway-no-such"] } },
    /^There is no package slipway-no-such for this base image: check its name below dependencies\.apt\./,
  );
  await failing({ plan: { condaPackages: ["numpy"] } }, /^The base image has no conda/);
  await failing(
    { plan: { baseImage: "localhost:1/none:none" } },
    /^The base image localhost:1\/none:none cannot be pulled from here/,
  );
  assert.deepEqual(readdirSync(builds.buildsDir), []);
});

test("a build goes on when the client's connection to the builder breaks", { skip }, async (t) => {
  const engine = await openEngine();
  const client = await findClient(toolEnvironment);
  assert.ok(client.ok);
  const folder = temporaryFolder(t, "client");
  // The first build does all its steps before the connection breaks.
  const script = `#!/bin/sh
if [ "$1" = ${client.build[0]} ] && [ "$2" != version ] && mkdir ${folder}/broken 2>/dev/null; then
  ${client.program} "$@"
  echo 'ERROR: rpc error: code = Internal desc = received 68017-bytes data exceeding the limit 65535 bytes' >&2
  exit 1
fi
exec ${client.program} "$@"
`;
  writeFileSync(join(folder, "docker"), script, { mode: 0o755 });
  const environment = { ...toolEnvironment, PATH: `${folder}:${toolEnvironment["PATH"] ?? ""}` };
  const lines: string[] = [];
  const builds = imageBuilds(t, engine, { toolEnvironment: environment });
  const { pythonVersion } = await builds.build(
    { "main.py": "" },
    { lines, plan: { shellCommands: ["echo once"] } },
  );
  assert.match(pythonVersion ?? "", /^3\.\d+$/);
  const text = lines.join("\n");
  assert.match(text, /prepare platform The connection to the Docker engine broke; trying again\./);
  assert.equal(text.match(/commands stdout once/g)?.length, 1);
});

test("a collection keeps what releases and builds need", { skip }, async (t) => {
  const engine = await openEngine();
  const builds = imageBuilds(t, engine);
  const building = newBuildId();
  const plans = [{}, {}, { buildId: building }, {}];
  const artifacts: DockerArtifact[] = [];
  for (const plan of plans) artifacts.push(await builds.build({ "main.py": "" }, { plan }));
  await builds.builder.remove(artifacts[3] ?? assert.fail());
  await builds.builder.remove(artifacts[3] ?? assert.fail());
  // Folders of a build that was killed with the platform, of one that runs, and of the process
  // driver.
  for (const path of [`killed/client`, `${building}/client`, "other/app"])
    mkdirSync(join(builds.buildsDir, path), { recursive: true });
  await builds.builder.collect(() =>
    Promise.resolve({ artifacts: artifacts.slice(0, 1), building: [building] }),
  );
  assert.deepEqual(readdirSync(builds.buildsDir).sort(), [building, "other"].sort());
  assert.deepEqual(
    artifacts.map(({ image }) => isListed(engine, image)),
    [true, false, true, false],
  );
});

test("results of steps are kept up to the allowed size", { skip }, async (t) => {
  // Whoever removes such results does so for the whole engine.
  const { current: engine } = await startOwnEngine(t);
  const bytesKept = async (): Promise<number> => {
    const { BuildCache } = (await new Docker({ socketPath: engine.socketPath }).df()) as {
      readonly BuildCache: readonly { readonly Size: number; readonly Shared: boolean }[];
    };
    return BuildCache.reduce((sum, { Size, Shared }) => sum + (Shared ? 0 : Size), 0);
  };
  const buildOne = async (builds: ImageBuilds, name: string): Promise<number> => {
    const text = `FROM ${baseImage}\nRUN echo ${name}; head -c 20000000 /dev/urandom > /kept\nCMD ["true"]\n`;
    const own = { runtime: "custom", dockerfilePath: "Dockerfile" } as const;
    await builds.builder.remove(await builds.build({ Dockerfile: text }, { plan: own }));
    return await bytesKept();
  };
  // Engines count differently.
  const bytesOfOne = await buildOne(imageBuilds(t, engine), "one");
  assert.ok(bytesOfOne > 20_000_000, String(bytesOfOne));
  const bytesMax = Math.round(bytesOfOne * 1.5);
  const builds = imageBuilds(t, engine, { cache: { bytesMax, hoursMax: 1000 } });
  await builds.collectAll();
  assert.equal(await bytesKept(), bytesOfOne);
  for (const name of ["two", "three"]) {
    const before = await buildOne(builds, name);
    assert.ok(before > bytesMax, `${before} ${bytesMax}`);
    await builds.collectAll();
    const after = await bytesKept();
    assert.ok(after <= bytesMax, `${after} ${bytesMax}`);
  }
});
