// What `slipway init` finds in a folder, and what it writes: TOML that the platform reads without a
// warning.
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
  const { status, stderr } = spawnSync(process.execPath, [main, "init", folder, ...words], {
    encoding: "utf8",
  });
  const file = join(folder, "slipway.toml");
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  const { values, packages, warnings } = readTomlFile("slipway.toml", text);
  return {
    status,
    stderr,
    values: Object.fromEntries(values),
    packages: packages.pip ?? {},
    warnings,
  };
}

test("an empty folder gets a slipway.toml and a main.py, and neither is overwritten", (t) => {
  const folder = folderWith(t, {});
  const first = init(folder);
  assert.deepEqual(
    [first.status, first.values["name"], first.warnings],
    [0, "my-app", []],
    first.stderr,
  );
  assert.deepEqual(exampleOf({ path: folder, custom: null }), {
    endpoint: "run",
    values: { name: "world" },
  });
  writeFileSync(join(folder, "slipway.toml"), "# mine\n");
  const again = init(folder);
  assert.equal(again.status, 1);
  assert.match(
    again.stderr,
    /slipway\.toml is there already\. Deploy it: slipway deploy\. .*slipway init --force/,
  );
  const own = "def own():\n    return 1\n";
  writeFileSync(join(folder, "main.py"), own);
  const forced = init(folder, "--force", "--name", "other-name");
  assert.equal(forced.values["name"], "other-name");
  assert.equal(readFileSync(join(folder, "main.py"), "utf8"), own);
  assert.equal(init(folder, "--force", "--name", "No").status, 2);
});

test("apps with a server of their own are found, with what starts them", (t) => {
  const uvicorn = (app: string) => ["uvicorn", app, "--host", "0.0.0.0", "--port", "8000"];
  const gunicorn = (app: string) => ["gunicorn", app, "--preload", "--bind", "0.0.0.0:8000"];
  const cases: readonly [Record<string, string>, readonly string[]][] = [
    [{ "main.py": "from fastapi import FastAPI\napp = FastAPI(title='x')\n" }, uvicorn("main:app")],
    [
      { "src/api/__init__.py": "import fastapi\nweb: fastapi.FastAPI = fastapi.FastAPI()\n" },
      uvicorn("src.api:web"),
    ],
    [{ "b.py": "x = Starlette()\n", "app.py": "y = Litestar()\n" }, uvicorn("app:y")],
    [
      { "site/wsgi.py": "application = get_wsgi_application()\n" },
      gunicorn("site.wsgi:application"),
    ],
    [{ "app.py": "app = Flask(__name__)\n" }, gunicorn("app:app")],
  ];
  for (const [files, entrypoint] of cases) {
    const { values, warnings, packages } = init(folderWith(t, files));
    assert.deepEqual(
      [values["runtime"], values["entrypoint"], values["port"]],
      ["custom", entrypoint, 8000],
    );
    assert.deepEqual([warnings, "gunicorn" in packages], [[], entrypoint[0] === "gunicorn"]);
  }
  const docker = init(
    folderWith(t, { Dockerfile: "FROM debian\nEXPOSE 9000/tcp\n", "main.py": "app = FastAPI()\n" }),
  );
  assert.deepEqual([docker.values["dockerfilePath"], docker.values["port"]], ["Dockerfile", 9000]);
  for (const path of ["dockerfile", "Containerfile", "Dockerfile.prod"]) {
    const { values } = init(
      folderWith(t, { [path]: "FROM debian\nEXPOSE 9001\n", "serve.pl": "" }),
    );
    assert.deepEqual([values["dockerfilePath"], values["port"]], [path, 9001]);
  }
  const beside = init(
    folderWith(t, { "Dockerfile.test": "FROM debian\n", "main.py": "def run(): ...\n" }),
  );
  assert.equal(beside.values["dockerfilePath"], undefined);
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
  const files = { "pyproject.toml": pyproject, "main.py": "def run():\n    return 1\n" };
  const taken = init(folderWith(t, files));
  assert.deepEqual(Object.fromEntries(Object.entries(taken.packages)), {
    httpx: ">=0.27,<1",
    "uvicorn[standard]": "latest",
    numpy: "latest",
  });
  assert.deepEqual(init(folderWith(t, { ...files, "requirements.txt": "httpx\n" })).packages, {});
});

test("a program that serves gets its own start command, with its port and what it needs", (t) => {
  const streamlit = [
    "--server.address",
    "0.0.0.0",
    "--server.port",
    "8000",
    "--server.headless",
    "true",
  ];
  const gradio = "import gradio as gr\ndemo = gr.Interface(len, 'text', 'number')\n";
  const cases: readonly [Record<string, string>, readonly string[], number, readonly string[]][] = [
    [
      { "app.py": "import streamlit as st\n" },
      ["streamlit", "run", "app.py", ...streamlit],
      8000,
      ["streamlit"],
    ],
    [
      { "app.py": `${gradio}demo.launch()\n` },
      ["env", "GRADIO_SERVER_NAME=0.0.0.0", "GRADIO_SERVER_PORT=8000", "python", "app.py"],
      ...([8000, ["gradio"]] as const),
    ],
    [
      { "demo.py": `${gradio}demo.launch(server_port=7861)\n`, "requirements.txt": "gradio\n" },
      ["env", "GRADIO_SERVER_NAME=0.0.0.0", "python", "demo.py"],
      ...([7861, []] as const),
    ],
    [
      { Procfile: "worker: x\nweb:  gunicorn app:app -b 0.0.0.0:$PORT \n", "app.py": "" },
      ["sh", "-c", "gunicorn app:app -b 0.0.0.0:$PORT"],
      ...([8000, ["gunicorn"]] as const),
    ],
    [
      { "main.py": "class A: pass\nHTTPServer(('', 8081), A).serve_forever()\n" },
      ["python", "main.py"],
      8081,
      [],
    ],
  ];
  for (const [files, entrypoint, port, packages] of cases) {
    const made = init(folderWith(t, files));
    assert.deepEqual(
      [made.status, made.values["entrypoint"], made.values["port"]],
      [0, entrypoint, port],
      made.stderr,
    );
    assert.deepEqual([Object.keys(made.packages), made.warnings], [packages, []]);
    const isDemo = ["streamlit", "env"].includes(entrypoint[0] ?? "");
    assert.equal(
      /To open the app's page in a browser, set disable_auth = true/.test(made.stderr),
      isDemo,
    );
  }
});

test("apps of Node.js and Go get a Dockerfile, and one that is there stays", (t) => {
  const express = {
    "package.json": '{"scripts":{"build":"x","start":"node ."}}',
    "package-lock.json": "{}",
  };
  const cases: readonly [Record<string, string>, number, readonly RegExp[]][] = [
    [
      { ...express, "a.js": "app.listen(process.env.PORT ?? 3000)" },
      8000,
      [
        /^FROM node:\d+-slim$/m,
        /^COPY package\*\.json \.\/\nRUN npm ci\nCOPY \. \.\nRUN npm run build$/m,
        /"npm","start"/,
      ],
    ],
    [
      { "package.json": "{}", "server.js": "x.listen( 3000 )" },
      3000,
      [/^RUN npm install$/m, /"node","server\.js"/],
    ],
    [
      { "package.json": "{}", "yarn.lock": "", Procfile: "web: node x" },
      8000,
      [/yarn install/, /"sh","-c","node x"/],
    ],
    [
      {
        "go.mod": "module x\n\ngo 1.23.1\n",
        "cmd/web/main.go": 'package main\nhttp.ListenAndServe(":8081", nil)\n',
      },
      8081,
      [/^FROM golang:1\.23 AS build$/m, /go build -o \/app \.\/cmd\/web$/m, /^CMD \["\/app"\]$/m],
    ],
  ];
  for (const [files, port, forms] of cases) {
    const folder = folderWith(t, files);
    const made = init(folder);
    assert.deepEqual(
      [made.status, made.values["dockerfilePath"], made.values["port"]],
      [0, "Dockerfile", port],
    );
    assert.match(
      made.stderr,
      /^Wrote Dockerfile for .*: it needs a platform with the docker driver\.$/m,
    );
    assert.doesNotMatch(made.stderr, /slipway dev/);
    const text = readFileSync(join(folder, "Dockerfile"), "utf8");
    assert.match(text, new RegExp(`^EXPOSE ${port}$`, "m"));
    for (const form of forms) assert.match(text, form);
    assert.equal(init(folder, "--force").values["port"], port);
    assert.equal(readFileSync(join(folder, "Dockerfile"), "utf8"), text);
  }
});

test("where something has to be done first, it says what, writes nothing, and exits with 1", (t) => {
  const cases: readonly [Record<string, string>, RegExp][] = [
    [
      { "train.ipynb": "{}" },
      /train\.ipynb is a notebook, .*jupyter nbconvert --to script --output main "train\.ipynb"/,
    ],
    [
      { "compose.yaml": "services: {}" },
      /compose\.yaml starts services.*in the folder of the one to deploy/,
    ],
    [
      { "app.py": "import modal\napp = modal.App()\n" },
      /app\.py is written for Modal\. Write a main\.py/,
    ],
    [
      { "main.py": "class Model:\n    def run(self): ...\ndef _f(): ...\n" },
      /main\.py has no public function/,
    ],
    [{ "predict.py": "def predict(): ...\n" }, /Rename predict\.py to main\.py/],
    [
      { "api/main.py": "def run(): ...\n" },
      /The app seems to be in api\. Then: slipway init api$/m,
    ],
    [{ "package.json": "{}" }, /package\.json has no start script/],
    [{ "go.mod": "module x\n", "x.go": "package x\n" }, /no package main/],
    [
      { "go.mod": "module x\n", "a/m.go": "package main\n", "b/m.go": "package main\n" },
      /several programs \(a, b\)/,
    ],
    [
      { "docker/Dockerfile": "FROM debian\n", "serve.pl": "" },
      /There is docker\/Dockerfile\. Run slipway init in the folder of the app, .*dockerfile_path/,
    ],
    [
      { "Dockerfile.a": "FROM debian\n", "Dockerfile.b": "FROM debian\n" },
      /There is Dockerfile\.a, Dockerfile\.b\. /,
    ],
    [{ "notes.txt": "" }, /Nothing here says how the app starts\. Write a main\.py/],
  ];
  for (const [files, why] of cases) {
    const folder = folderWith(t, files);
    const { status, stderr } = init(folder);
    assert.equal(status, 1, stderr);
    assert.match(stderr, why);
    assert.deepEqual(
      [existsSync(join(folder, "slipway.toml")), existsSync(join(folder, "Dockerfile"))],
      [false, false],
    );
    assert.doesNotMatch(stderr, /Next:/);
  }
});

test("a folder with a README only is a new app, and a name that does not fit is replaced aloud", (t) => {
  const folder = folderWith(t, { "README.md": "# x\n", LICENSE: "" });
  assert.match(
    init(folder).stderr,
    /^Wrote main\.py: .*\nThe apps of a project share one volume, /m,
  );
  const short = join(folder, "Go");
  mkdirSync(short);
  const { status, stderr, values } = init(short);
  assert.deepEqual([status, values["name"]], [0, "my-app"]);
  assert.match(stderr, /^The name is my-app: the folder's own does not fit\./);
});
