// A private repository that has only a Dockerfile, and a file in Git LFS: what the build says, and
// the app that comes of it.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { noEngine } from "#test/support/docker-engine.ts";
import { startDockerPlatform } from "#test/support/docker-platform.ts";
import { deploy } from "#test/support/examples.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { lfsServer } from "#test/support/lfs-server.ts";
import { until } from "#test/support/until.ts";

const skip = await noEngine();

const dockerfile = `FROM debian:bookworm-slim
WORKDIR /app
COPY . .
CMD ["python3", "serve.py"]
`;
const serve = `import http.server, os

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(os.path.getsize("model.bin")).encode())

http.server.HTTPServer(("0.0.0.0", 9000), Handler).serve_forever()
`;

test(
  "a private repository with a Dockerfile and files of Git LFS is built as the build's own words say",
  { skip },
  async (t) => {
    const origin = { text: "" };
    const credentials = "x-access-token:hush-123";
    const lfs = lfsServer(() => origin.text, credentials);
    const server = await startGitServer(t, { intercept: lfs.intercept, credentials });
    origin.text = `http://${server.host}`;
    await server.createRepo("acme", "app", {
      Dockerfile: dockerfile,
      "serve.py": serve,
      ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n",
      "model.bin": lfs.add("weights ".repeat(1000)),
    });
    const { platform } = await startDockerPlatform(t, { SLIPWAY_GIT_URL: server.urlTemplate });
    const project = `/v2/projects/${platform.bootstrap.projectId}`;
    const stranger = await deploy(platform, { name: "stranger", gitRepo: "acme/app" });
    assert.match(
      stranger.log,
      /Error: acme\/app on \S+ does not exist, or it is private: this project has no git credential/,
    );
    const credential = { kind: "token", secret: "hush-123" };
    const kept = await platform.api("PUT", `${project}/git-credentials/${server.host}`, credential);
    assert.equal(kept.status, 200, JSON.stringify(kept.body));
    const { appId, status, log } = await deploy(platform, { name: "image", gitRepo: "acme/app" });
    assert.equal(status, "build_failure", log);
    assert.match(log, /only a pointer: model\.bin\. To fetch them: set gitLfs of the app to true/);
    assert.match(
      log,
      /Error: There is no main\.py .* there is Dockerfile\. .* set dockerfilePath to Dockerfile .*, and port to/,
    );
    const app = `${project}/apps/${appId}`;
    const change = { dockerfilePath: "Dockerfile", port: 9000, gitLfs: true };
    const { body: changed } = await platform.api("PATCH", app, change);
    const build = `${app}/builds/${changed.buildId}`;
    const isEnded = async (): Promise<boolean> =>
      ["success", "build_failure", "init_failure"].includes(
        (await platform.api("GET", build)).body.status,
      );
    await until("the build with the Dockerfile ends", isEnded, { deadlineMs: 200_000 });
    const logs = JSON.stringify((await platform.api("GET", `${build}/logs`)).body.logs);
    assert.equal((await platform.api("GET", build)).body.status, "success", logs);
    assert.ok(!logs.includes("hush-123"), "the token is in no log");
    const answer = await platform.call("image", "size", undefined, { method: "GET" });
    assert.equal(await answer.text(), "8000");
  },
);
