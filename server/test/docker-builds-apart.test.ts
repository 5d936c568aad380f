// Builds of images of different projects: nothing of one reaches another, and the engine does
// nothing for them with its own rights.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { BuildFailed, type BuildPlan } from "#drivers/builder.ts";
import { sameFiles } from "#drivers/docker/own-container.ts";
import { connectEngine } from "#drivers/docker/engine.ts";
import { appIdOf, newBuildId, newProjectId, type AppId } from "#lib/ids.ts";
import { cleanLast } from "#test/support/clean-last.ts";
import { baseImage, noEngine, openEngine } from "#test/support/docker-engine.ts";
import { runDocker, type Engine } from "#test/support/dockerd.ts";
import { imageBuilds, type ImageBuilds } from "#test/support/image-builds.ts";

const skip = await noEngine();
const limits = { memoryBytes: 200_000_000, cpuCores: null, tasksMax: 50 };

type Builds = ImageBuilds & {
  readonly engine: Engine;
  /** The output of the image's command. */
  outputOf(appId: AppId, dockerfile: string, plan?: Partial<BuildPlan>): Promise<string>;
};

async function openBuilds(
  t: TestContext,
  options: Parameters<typeof imageBuilds>[2] = {},
): Promise<Builds> {
  const engine = await openEngine();
  const { facts } = await connectEngine(engine.socketPath);
  const builds = imageBuilds(t, engine, {
    limits: { engineRoot: facts.dataRoot, machine: sameFiles, limits },
    ...options,
  });
  return {
    ...builds,
    engine,
    async outputOf(appId, dockerfile, plan = {}) {
      const given = { runtime: "custom", dockerfilePath: "Dockerfile", appId, ...plan } as const;
      const { image } = await builds.build(
        { Dockerfile: `FROM ${baseImage}\n${dockerfile}` },
        { plan: given },
      );
      return runDocker(engine, "run", "--rm", image);
    },
  };
}

const appOfNewProject = (): AppId => appIdOf(newProjectId(), "app");
const printed = 'CMD ["cat", "/got"]\n';

test(
  "projects have cache mounts of their own, whatever their Dockerfiles call them",
  { skip },
  async (t) => {
    const builds = await openBuilds(t);
    const one = appOfNewProject();
    const other = appOfNewProject();
    const mount = "RUN --mount=type=cache,id=wheels,target=/wheels";
    const look = (text: string): string =>
      `${mount} echo ${text}; cat /wheels/kept > /got 2>&1 || true\n${printed}`;
    await builds.outputOf(one, `${mount} echo mine > /wheels/kept\nCMD ["true"]\n`);
    assert.equal(await builds.outputOf(one, look("first")), "mine");
    assert.match(await builds.outputOf(other, look("second")), /No such file/);
  },
);

test("the result of a step is used again in its project alone", { skip }, async (t) => {
  const builds = await openBuilds(t);
  const one = appOfNewProject();
  const other = appOfNewProject();
  const secret = "--mount=type=secret,id=slipway-variables . /run/secrets/slipway-variables";
  const step = `RUN ${secret}; (echo $TOKEN; head -c 9 /dev/urandom | base64) > /got\n${printed}`;
  const first = await builds.outputOf(one, step, { environment: { TOKEN: "of-one" } });
  assert.match(first, /^of-one\n/);
  assert.equal(await builds.outputOf(one, step), first);
  assert.match(
    await builds.outputOf(other, step, { environment: { TOKEN: "of-other" } }),
    /^of-other\n/,
  );
});

test("a step learns nothing by which it could name images of others", { skip }, async (t) => {
  const builds = await openBuilds(t);
  const appId = appOfNewProject();
  const buildId = newBuildId();
  const { image } = await builds.build(
    { Dockerfile: `FROM ${baseImage}\nRUN cat /etc/hosts /proc/self/environ > /got\n${printed}` },
    { plan: { runtime: "custom", dockerfilePath: "Dockerfile", appId, buildId } },
  );
  const told = runDocker(builds.engine, "run", "--rm", image);
  assert.match(told, /[0-9a-f]{32}\.build\.slipway\.internal/);
  assert.ok(!told.includes(builds.installationId), told);
  const [tag = ""] = JSON.parse(
    runDocker(builds.engine, "image", "inspect", "--format={{json .RepoTags}}", image),
  ) as string[];
  const known = [builds.installationId, appId, buildId, ...(told.match(/[0-9a-f]{32}/g) ?? [])];
  assert.ok(!known.some((part) => tag.includes(part)), tag);
});

test(
  "the engine fetches no address for a Dockerfile, nor for one that its base image brings",
  { skip },
  async (t) => {
    const builds = await openBuilds(t);
    const appId = appOfNewProject();
    let calls = 0;
    const server = createServer((_request, response) => {
      calls++;
      response.end("of this machine\n");
    }).listen(0, "127.0.0.1");
    cleanLast(t, () => void server.close());
    await once(server, "listening");
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const isRefused = (error: unknown): boolean =>
      error instanceof BuildFailed &&
      /ADD is possible with plain names of files/.test(error.message);
    await assert.rejects(builds.outputOf(appId, `ADD ${address} /got\n${printed}`), isRefused);
    assert.equal(calls, 0);
    // An image that somebody has made elsewhere.
    const base = `slipway-test-${newBuildId()}`;
    const id = runDocker(builds.engine, "create", baseImage, "true");
    runDocker(builds.engine, "commit", `--change=ONBUILD ADD ${address} /got`, id, base);
    runDocker(builds.engine, "rm", id);
    cleanLast(t, () => void runDocker(builds.engine, "rmi", "--force", base));
    const files = { Dockerfile: `FROM ${base}\n${printed}` };
    const plan = { runtime: "custom", dockerfilePath: "Dockerfile", appId } as const;
    // Secrets are hidden in what is shown, not in what is judged.
    for (const secrets of [{}, { A: "http://", B: "ADD http", C: address }])
      await assert.rejects(builds.build(files, { plan, secrets }), isRefused);
    const generated = { plan: { baseImage: base, appId }, secrets: { A: "http://" } };
    await assert.rejects(builds.build({ "main.py": "" }, generated), isRefused);
    const label = `--filter=label=slipway.instance=${builds.installationId}`;
    assert.equal(runDocker(builds.engine, "image", "ls", "--quiet", label), "");
  },
);

test(
  "a build that fills the disk is ended, and what its steps write counts for it",
  { skip },
  async (t) => {
    let folders = (): readonly string[] => [];
    const isWritten = (): boolean => folders().some((folder) => existsSync(join(folder, "much")));
    const disk = {
      add: (writer: { readonly folders: () => readonly string[] }) => {
        ({ folders } = writer);
        return () => undefined;
      },
      buildRefusal: () => null,
      storeRefusal: () => (isWritten() ? "The platform's disk is full." : null),
    };
    const builds = await openBuilds(t, { disk });
    const step = `RUN echo much > /much; exec sleep 1000\n${printed}`;
    await assert.rejects(
      builds.outputOf(appOfNewProject(), step),
      (error) =>
        error instanceof BuildFailed && /disk is full\. Then build it again/.test(error.message),
    );
  },
);

test(
  "an image that would harm the engine or the platform is refused before anything starts it",
  { skip },
  async (t) => {
    const builds = await openBuilds(t);
    // Many labels, since BuildKit takes quadratic time for a long one.
    const labels = Array.from({ length: 30 }, (_, index) => `LABEL a${index}=$B\n`).join("");
    const grown = `ARG A=${"x".repeat(1000)}\nARG B=${"$A".repeat(10)}\n${labels}`;
    const refused = [
      [grown, /The configuration of the image has \d+ characters .*Fewer than 256000 are possible/],
      ["VOLUME /data /data/more\n", /names the volume \/data\/more\/ within another one/],
      [
        `VOLUME ${Array.from({ length: 11 }, (_, index) => `/v${index}`).join(" ")}\n`,
        /names 11 volumes/,
      ],
    ] as const;
    for (const [text, reason] of refused) {
      await assert.rejects(builds.outputOf(appOfNewProject(), `${text}CMD ["true"]\n`), (error) => {
        assert.ok(error instanceof BuildFailed, String(error));
        assert.match(error.message, reason);
        return true;
      });
    }
    const fine = `LABEL a=${"x".repeat(10_000)}\nVOLUME /data /other\nCMD ["echo", "fine"]\n`;
    assert.equal(await builds.outputOf(appOfNewProject(), fine), "fine");
  },
);

test(
  "a registry whose answer has no end fails the build, and nothing more",
  { skip },
  async (t) => {
    const builds = await openBuilds(t);
    const server = createServer((request, response) => {
      if (request.url === "/v2/") return void response.end("{}");
      response.writeHead(404, { "content-type": "application/json" });
      // Each character of the answer becomes six in the engine's.
      response.end(Buffer.alloc(3_000_000));
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    cleanLast(t, () => void server.close());
    const { port } = server.address() as AddressInfo;
    const image = `127.0.0.1:${port}/x@sha256:${"0".repeat(64)}`;
    await assert.rejects(
      builds.build({ "main.py": "" }, { plan: { baseImage: image } }),
      (error) => {
        assert.ok(error instanceof BuildFailed, String(error));
        assert.match(error.message, /^(?:There is no base image|The base image) 127\.0\.0\.1/);
        assert.ok(error.message.length < 2000, String(error.message.length));
        return true;
      },
    );
  },
);
