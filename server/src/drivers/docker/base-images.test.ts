// Which images a build may use, with an engine that answers over HTTP like Docker's.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test, type TestContext } from "node:test";
import Docker from "dockerode";
import { BuildFailed, type BuildPlan } from "#drivers/builder.ts";
import { allowedImages } from "./base-images.ts";

const digest = `@sha256:${"12".repeat(32)}`;

/** An engine that has no images, and whose registries give every image. */
async function openEngine(t: TestContext) {
  const paths: string[] = [];
  const server = createServer(({ url = "" }, response) => {
    paths.push(url);
    const isMissing = url.startsWith("/images/");
    response.writeHead(isMissing ? 404 : 200, { "content-type": "application/json" });
    response.end(JSON.stringify({ IndexServerAddress: "https://index.docker.io/v1/" }));
  }).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const calls = new Docker({ protocol: "http", host: "127.0.0.1", port });
  const imagesOf = (dockerfile: string) =>
    allowedImages(
      { calls },
      {
        plan: { baseImage: "debian:12", environment: {} } as BuildPlan,
        dockerfile,
        moreRegistries: [],
        registryAuth: async () => null,
        signal: t.signal,
      },
    );
  return { paths, imagesOf };
}

test("only an image with a digest that the Dockerfile names is checked by digest", async (t) => {
  const { imagesOf } = await openEngine(t);
  const { isDigestChecked } = await imagesOf(`FROM debian${digest}`);
  assert.equal(isDigestChecked(`docker.io/library/debian${digest}`), true);
  assert.equal(isDigestChecked(`debian@sha256:${"21".repeat(32)}`), false);
  assert.equal(isDigestChecked("debian:12"), false);
});

test("a name with another meaning in a path does not reach the engine", async (t) => {
  const { imagesOf, paths } = await openEngine(t);
  await assert.rejects(
    imagesOf(`FROM docker.io/../../containers${digest}`),
    (error) => error instanceof BuildFailed && /no image can have this name/.test(error.message),
  );
  assert.deepEqual(paths, ["/info"]);
});
