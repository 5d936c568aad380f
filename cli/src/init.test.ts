// What `slipway init` finds in a folder, and what it writes: TOML that the platform reads without a warning.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import { fileURLToPath } from "node:url";
import { readTomlFile } from "@slipway/server/src/apps/toml-file.ts";
import { exampleOf, slipwayCall } from "./call-example.ts";

const main = fileURLToPath(new URL("main.ts", import.meta.url));

function folderWith(t: TestContext, files: Readonly<Record<string, string>>): string {
  const above = mkdtempSync(join(tmpdir(), "slipway-test-cli-"));
  t.after(() => rmSync(above, { recursive: true }));
  const folder = join(above, "My App");
  mkdirSync(folder);
  for (const [path, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), content);
  }
  return folder;
}

function init(folder: string, ...words: string[]) {
  const { status, stderr } = spawnSync(process.execPath, [main, "init", folder, ...words], { encoding: "utf8" });
  const file = join(folder, "slipway.toml");
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  const { values, packages, warnings } = readTomlFile("slipway.toml", text);
  return { status, stderr, values: Object.fromEntries(values), packages: packages.pip ?? {}, warnings };
}

test("an empty folder gets a slipway.toml and a main.py, and neither is overwritten", (t) => {
  const folder = folderWith(t, {});
  const first = init(folder);
  assert.deepEqual([first.status, first.values["name"], first.warnings], [0, "my-app", []], first.stderr);
  assert.deepEqual(exampleOf({ path: folder, custom: null }), { endpoint: "run", values: { name: "world" } });
  writeFileSync(join(folder, "slipway.toml"), "# mine\n");
  const again = init(folder);
  assert.equal(again.status, 1);
  assert.match(again.stderr, /slipway\.toml is there already\. Deploy it: slipway deploy\. .*slipway init --force/);
  writeFileSync(join(folder, "main.py"), "# mine\n");
  const forced = init(folder, "--force", "--name", "other-name");
  assert.equal(forced.values["name"], "other-name");
  assert.equal(readFileSync(join(folder, "main.py"), "utf8"), "# mine\n");
  assert.equal(init(folder, "--force", "--name", "No").status, 2);
});

test("apps with a server of their own are found, with what starts them", (t) => {
  const uvicorn = (app: string) => ["uvicorn", app, "--host", "0.0.0.0", "--port", "8000"];
  const gunicorn = (app: string) => ["gunicorn", app, "--preload", "--bind", "0.0.0.0:8000"];
  const cases: readonly [Record<string, string>, readonly string[]][] = [
    [{ "main.py": "from fastapi import FastAPI\napp = FastAPI(title='x')\n" }, uvicorn("main:app")],
    [{ "src/api/__init__.py": "import fastapi\nweb: fastapi.FastAPI = fastapi.FastAPI()\n" }, uvicorn("src.api:web")],
    [{ "b.py": "x = Starlette()\n", "app.py": "y = Litestar()\n" }, uvicorn("app:y")],
    [{ "site/wsgi.py": "application = get_wsgi_application()\n" }, gunicorn("site.wsgi:application")],
    [{ "app.py": "app = Flask(__name__)\n" }, gunicorn("app:app")],
  ];
  for (const [files, entrypoint] of cases) {
    const { values, warnings, packages } = init(folderWith(t, files));
    assert.deepEqual([values["runtime"], values["entrypoint"], values["port"]], ["custom", entrypoint, 8000]);
    assert.deepEqual([warnings, "gunicorn" in packages], [[], entrypoint[0] === "gunicorn"]);
  }
  const docker = init(folderWith(t, { Dockerfile: "FROM debian\nEXPOSE 9000/tcp\n", "main.py": "app = FastAPI()\n" }));
  assert.deepEqual([docker.values["dockerfilePath"], docker.values["port"]], ["Dockerfile", 9000]);
  assert.equal(slipwayCall("web", { endpoint: "", values: {} }), "slipway call web/ --method GET");
  const functions = init(folderWith(t, { "main.py": "def run():\n    app = FastAPI()\n" }));
  assert.equal(functions.values["runtime"], undefined);
});

test("packages that an app lists nowhere are written down, but not beside a requirements.txt, which would not count", (t) => {
  const flask = { "app.py": "app = Flask(__name__)\n" };
  assert.deepEqual(Object.keys(init(folderWith(t, flask)).packages), ["flask", "gunicorn"]);
  assert.deepEqual(init(folderWith(t, { ...flask, "requirements.txt": "flask\n" })).packages, {});
  const fast = init(folderWith(t, { "main.py": "app = FastAPI()\n" }));
  assert.deepEqual(Object.keys(fast.packages), ["fastapi", "uvicorn"]);
});

test("packages of a pyproject.toml are taken, but not beside a requirements.txt", (t) => {
  const pyproject = `[project]
dependencies = ["httpx >=0.27,<1", "uvicorn[standard]", "numpy", "x @ https://example.org/x.whl", "y; python_version < '3.9'"]
`;
  const files = { "pyproject.toml": pyproject, "main.py": "" };
  const taken = init(folderWith(t, files));
  assert.deepEqual(Object.fromEntries(Object.entries(taken.packages)), {
    httpx: ">=0.27,<1",
    "uvicorn[standard]": "latest",
    numpy: "latest",
  });
  assert.deepEqual(init(folderWith(t, { ...files, "requirements.txt": "httpx\n" })).packages, {});
});
