// Web servers of apps answer below `/`, while their clients see them below a path: real servers,
// through a real platform.
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import { deploy } from "./support/examples.ts";
import { startGitServer } from "./support/git-server.ts";
import { pipVersion } from "./support/give-pip.ts";
import { packageIndexAnswers } from "./support/package-index.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";

const toml = `[cerebrium.deployment]
python_version = "${pipVersion}"

[cerebrium.runtime.custom]
port = 8000
entrypoint = ["uvicorn", "main:app", "--host", "0.0.0.0", "--port", "8000"]
healthcheck_endpoint = "/health/"
readycheck_endpoint = "/health/"

[cerebrium.dependencies.pip]
fastapi = "latest"
uvicorn = "latest"
`;

const fastapi = `
from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse

app = FastAPI()

@app.get("/health/")
def health():
    return {"ok": True}

@app.get("/where")
def where(request: Request):
    return {"link": str(request.url_for("health")), "prefix": request.headers["x-forwarded-prefix"]}

@app.get("/moved")
def moved():
    return RedirectResponse("/health/")
`;

const handled = `
from fastapi import FastAPI, Request

app = FastAPI()

@app.get("/health/")
def health(request: Request):
    return {"path": request.url.path}
`;

const plain = `
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        own = "http://" + self.headers["Host"] if self.path == "/whole" else ""
        self.send_response(200 if self.path == "/ready/" else 302)
        self.send_header("Location", own + "/ready/")
        self.send_header("Content-Length", "0")
        self.end_headers()

ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
`;

async function startPlatform(t: TestContext): Promise<PlatformProcess> {
  const server = await startGitServer(t);
  await server.createRepo("acme", "examples", {
    "fastapi/main.py": fastapi,
    "fastapi/cerebrium.toml": toml,
    "handled/main.py": handled,
    "handled/cerebrium.toml": toml,
    "plain/main.py": plain,
    "plain/cerebrium.toml": toml
      .replace(/entrypoint.*/, 'entrypoint = ["python", "main.py"]')
      .replaceAll("/health/", "/ready/"),
  });
  return await startPlatformOnTestServer(t, { SLIPWAY_GIT_URL: server.urlTemplate });
}

async function get({ bootstrap }: PlatformProcess, path: string): Promise<Response> {
  const { baseUrl, projectId, inferenceToken } = bootstrap;
  const headers = { authorization: `Bearer ${inferenceToken}` };
  return await fetch(`${baseUrl}/v4/${projectId}/${path}`, { headers, redirect: "manual" });
}

test("links and redirects of web apps lead below the app's path", async (t) => {
  const platform = await startPlatform(t);
  const { projectId, baseUrl } = platform.bootstrap;
  await t.test("a plain server that knows nothing of its path", async () => {
    const app = await deploy(platform, { name: "plain", gitPath: "plain", config_toml: "" });
    assert.equal(app.status, "success", app.log);
    assert.equal(
      (await get(platform, "plain/ready")).headers.get("location"),
      `/v4/${projectId}/plain/ready/`,
    );
    const whole = (await get(platform, "plain/whole")).headers.get("location");
    assert.equal(whole, `${baseUrl}/v4/${projectId}/plain/ready/`);
    assert.equal(
      (
        await fetch(whole, {
          headers: { authorization: `Bearer ${platform.bootstrap.inferenceToken}` },
        })
      ).status,
      200,
    );
  });
  const skip = await packageIndexAnswers();
  await t.test(
    "FastAPI with uvicorn, whose documentation loads its own description",
    { skip },
    async () => {
      const app = await deploy(platform, { name: "fastapi", gitPath: "fastapi" });
      assert.equal(app.status, "success", app.log);
      const root = `/v4/${projectId}/fastapi`;
      assert.ok(
        (await (await get(platform, "fastapi/docs")).text()).includes(`'${root}/openapi.json'`),
        app.log,
      );
      const description = (await (await get(platform, "fastapi/openapi.json")).json()) as {
        servers: unknown;
      };
      assert.deepEqual(description.servers, [{ url: root }]);
      const where = await (await get(platform, "fastapi/where")).json();
      assert.deepEqual(where, { link: `${baseUrl}${root}/health/`, prefix: root });
      assert.equal(
        (await get(platform, "fastapi/health")).headers.get("location"),
        `${baseUrl}${root}/health/`,
      );
      assert.equal(
        (await get(platform, "fastapi/moved")).headers.get("location"),
        `${root}/health/`,
      );
    },
  );
  await t.test("an app that reads its paths itself sees them as before", { skip }, async () => {
    const app = await deploy(platform, { name: "handled", gitPath: "handled" });
    assert.equal(app.status, "success", app.log);
    assert.deepEqual(await (await get(platform, "handled/health/")).json(), { path: "/health/" });
    assert.match(app.log, /main\.py handles paths itself/);
  });
});
