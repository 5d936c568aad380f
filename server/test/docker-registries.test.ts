// From which registries builds of images pull, with a real Docker engine: a hostile one would have
// it fetch addresses of its machine.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { BuildFailed } from "#drivers/builder.ts";
import { cleanLast, type WithAfter } from "#test/support/clean-last.ts";
import { baseImage, noEngine, openEngine } from "#test/support/docker-engine.ts";
import { runDocker } from "#test/support/dockerd.ts";
import { imageBuilds, type GivenBuild, type ImageBuilds } from "#test/support/image-builds.ts";
import { until } from "#test/support/until.ts";

const skip = await noEngine();

const own = { runtime: "custom", dockerfilePath: "Dockerfile" } as const;

async function listen(t: WithAfter, answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanLast(t, () => {
    server.closeAllConnections();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A registry that leads to a service of the machine, and what both were asked for. */
async function openHostileRegistry(t: WithAfter) {
  const asked: string[] = [];
  const service = await listen(t, ({ url }, response) => {
    asked.push(`service ${url}`);
    response.end(JSON.stringify({ token: "TOKEN-OF-THE-MACHINE-3307" }));
  });
  const host = await listen(t, ({ url = "", headers }, response) => {
    asked.push(`registry ${url} ${headers.authorization ?? ""}`);
    if (url.includes("/led/"))
      return void response.writeHead(307, { location: `http://${service}/led` }).end();
    const realm = `http://${service}/credentials?x=1`;
    response.writeHead(401, { "www-authenticate": `Bearer realm="${realm}",service="x"` }).end();
  });
  return { host, asked };
}

async function refusal(
  builds: ImageBuilds,
  files: Readonly<Record<string, string>>,
  given: GivenBuild,
): Promise<string> {
  const error = await builds.build(files, given).then(
    () => assert.fail("it was built"),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof BuildFailed, String(error));
  return error.message;
}

test(
  "a build does not lead the engine to an address of its machine through a registry of its own",
  { skip },
  async (t) => {
    const engine = await openEngine();
    const { host, asked } = await openHostileRegistry(t);
    const trusting = imageBuilds(t, engine, { moreRegistries: [host] });
    await refusal(trusting, { Dockerfile: `FROM ${host}/team/a:1\nCMD ["true"]` }, { plan: own });
    assert.ok(
      asked.some((one) => one.startsWith("service /credentials")),
      "the attack is real",
    );
    assert.ok(
      asked.some((one) => one.includes("TOKEN-OF-THE-MACHINE-3307")),
      "the attack is real",
    );
    await refusal(trusting, { Dockerfile: `FROM ${host}/led/a:1\nCMD ["true"]` }, { plan: own });
    assert.ok(asked.includes("service /led"), "the attack is real");

    asked.length = 0;
    const builds = imageBuilds(t, engine, { moreRegistries: [] });
    const digest = `sha256:${"a".repeat(64)}`;
    const end = `CMD ["true"]`;
    const port = host.replace("127.0.0.1:", "");
    for (const image of [
      `${host}/team/a:1`,
      `${host}/led/a`,
      `${host}/team/a@${digest}`,
      `localhost:${port}/team/a`,
    ]) {
      const named = image.slice(0, image.indexOf("/"));
      for (const text of [
        `FROM ${image}\n${end}`,
        `FROM ${baseImage}\nCOPY --from=${image} /a /a\n${end}`,
        `FROM ${baseImage}\nRUN --mount=type=bind,from=${image},target=/a ls\n${end}`,
        `FROM \\\n${"# remark\n".repeat(60)}${image}\n${end}`,
        `FROM ${baseImage}\nRUN true \\\n FROM a AS ${image}\nFROM ${image}\n${end}`,
        `ARG HOST=${named}\nARG BASE=$HOST/${image.slice(named.length + 1)}\nFROM \${BASE}\n${end}`,
      ]) {
        const message = await refusal(builds, { Dockerfile: text }, { plan: own });
        assert.ok(
          message.includes(`ask the operator to add ${named} to SLIPWAY_DOCKER_REGISTRIES`),
          message,
        );
      }
      const auth = "name:password";
      assert.match(
        await refusal(builds, { "main.py": "" }, { plan: { baseImage: image }, auth }),
        /SLIPWAY_DOCKER_REG/,
      );
    }
    const syntax = `# syntax=${host}/docker/dockerfile:1\nFROM ${baseImage}\n${end}`;
    assert.match(
      await refusal(builds, { Dockerfile: syntax }, { plan: own }),
      /another reader of Dockerfiles/,
    );
    // What only names an image is not asked for.
    const mentions = `FROM ${baseImage}\nRUN echo ${host}/team/a@${digest}\n${end}`;
    await builds.build({ Dockerfile: mentions }, { plan: own });
    assert.deepEqual(asked, []);
  },
);

test("an image that the operator has loaded needs no registry", { skip }, async (t) => {
  const engine = await openEngine();
  const name = `registry.invalid/team/${randomBytes(6).toString("hex")}`;
  runDocker(engine, "tag", baseImage, name);
  cleanLast(t, () => void runDocker(engine, "rmi", name));
  const builds = imageBuilds(t, engine, { moreRegistries: [] });
  await builds.build({ Dockerfile: `FROM ${name}\nCMD ["true"]` }, { plan: own });
  await builds.build({ "main.py": "" }, { plan: { baseImage: name } });
  const other = await refusal(
    builds,
    { Dockerfile: `FROM ${name}-not\nCMD ["true"]` },
    { plan: own },
  );
  assert.match(other, /registry\.invalid/);
});

test(
  "a build beside one whose base image has the same content under another name is not refused",
  { skip },
  async (t) => {
    const engine = await openEngine();
    const name = `registry.invalid/team/${randomBytes(6).toString("hex")}`;
    runDocker(engine, "tag", baseImage, name);
    cleanLast(t, () => void runDocker(engine, "rmi", name));
    const builds = imageBuilds(t, engine, { moreRegistries: [] });
    const cancel = new AbortController();
    const ofOther: string[] = [];
    const other = builds.build(
      { Dockerfile: `FROM ${name}\nRUN echo began; exec sleep 86399\nCMD ["true"]` },
      { plan: own, signal: cancel.signal, lines: ofOther },
    );
    const cancelled = assert.rejects(other, /the other is over/);
    try {
      const begun = until("it runs", () => ofOther.includes("commands stdout began"), {
        deadlineMs: 120_000,
      });
      await Promise.race([begun, cancelled]);
      const lines: string[] = [];
      const dockerfile = `FROM ${baseImage}\nCMD ["true"]`;
      await builds.build({ Dockerfile: dockerfile }, { plan: own, lines });
      await builds.build({ "main.py": "" }, { lines });
      assert.ok(!lines.join("\n").includes("registry.invalid"), lines.join("\n"));
    } finally {
      cancel.abort(new Error("the other is over"));
      await cancelled;
    }
  },
);
