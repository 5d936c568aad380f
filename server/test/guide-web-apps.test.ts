// The recipes of the guide "Web apps": their files and start commands as they stand there, with
// packages as they come from the Python package index, behind the proxy with the settings of the
// recipe, used with a browser on the host name of each app. How apps are built is tested elsewhere.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test, type TestContext } from "node:test";
import { promisify } from "node:util";
import type { AppSettings } from "@slipway/contract/app-settings.ts";
import { resolveSettings } from "#apps/settings.ts";
import { ahead } from "./support/ahead.ts";
import { drawCases } from "./support/drawn-cases.ts";
import { findBrowser, startBrowser, type Page } from "./support/browser.ts";
import { makeFolder, removeFolder, temporaryFolder } from "./support/folder.ts";
import { freePorts } from "./support/free-ports.ts";
import { packageIndexAnswers } from "./support/package-index.ts";
import { withoutBrowser } from "./support/page-stage.ts";
import { helloPath, openProxyBed, projectId } from "./support/proxy-bed.ts";
import { until } from "./support/until.ts";

const run = promisify(execFile);
/** The timeout for installing a recipe's packages, of which there are up to a hundred. */
const installMs = 300_000;
const startMs = 240_000;
/** The timeout of the test around all parts, whose own limits are shorter. */
const allMs = 1_140_000;
const guide = join(import.meta.dirname, "../../docs/guides/web-apps.md");

/** The files of each recipe, by the name of its app. */
function recipes(): Map<string, Record<string, string>> {
  const [, text = ""] = readFileSync(guide, "utf8").split("\n## Recipes\n");
  const all = new Map<string, Record<string, string>>();
  for (const section of (text.split("\n## ")[0] ?? "").split("\n### ").slice(1)) {
    const form = /\n`([\w.-]+)`:\n\n```\w+\n([\s\S]*?)```/g;
    const files = Object.fromEntries(
      [...section.matchAll(form)].map(([, name = "", content = ""]) => [name, content]),
    );
    const toml = files["slipway.toml"] ?? "";
    const name = /^name = "([a-z-]+)"$/m.exec(toml)?.[1] ?? "";
    all.set(name, files);
  }
  return all;
}

/**
 * What a person does with each app, once its page is open; `secrets`: those that the guide says to
 * set.
 */
type Use = {
  readonly secrets?: Record<string, string>;
  readonly use: (page: Page, url: string) => Promise<void>;
};

/** Types into what has the focus, as a person does. */
async function typeInto(page: Page, selector: string, text: string): Promise<void> {
  await until(`there is ${selector}`, () =>
    page.evaluate(`(() => {
      const field = document.querySelector(${JSON.stringify(selector)});
      field?.focus();
      return field !== null && document.activeElement === field;
    })()`),
  );
  await page.send("Input.insertText", { text });
}

const uses: Readonly<Record<string, Use>> = {
  "gradio-demo": {
    async use(page) {
      await page.shows("Submit");
      await typeInto(page, "textarea", "Ada");
      await page.click("Submit");
      await until("the app has answered", () =>
        page.evaluate(
          `[...document.querySelectorAll("textarea")].some((field) => field.value === "Hello Ada!")`,
        ),
      );
    },
  },
  "streamlit-demo": {
    async use(page) {
      await page.shows("Name");
      await typeInto(page, "input", "Ada");
      await page.press("Enter");
      await page.shows("Hello Ada!");
    },
  },
  "jupyter-demo": {
    secrets: { JUPYTER_TOKEN: "a-token-for-tests" },
    async use(page, url) {
      await page.shows("Password or token");
      await page.goTo(`${url}?token=a-token-for-tests`);
      await page.loads("Kernel", startMs);
      const kernel = await page.evaluate(`(async () => {
        const root = location.pathname.replace(/\\/lab.*/, "");
        const xsrf = document.cookie.match(/_xsrf=([^;]*)/)[1];
        const headers = { "content-type": "application/json", "x-xsrftoken": xsrf };
        const made = await fetch(root + "/api/kernels", { method: "POST", headers, body: "{}" }).then((one) => one.json());
        const at = location.origin.replace("http", "ws") + root + "/api/kernels/" + made.id + "/channels";
        return new Promise((resolve) => {
          const socket = new WebSocket(at);
          socket.onopen = () => resolve("open");
          socket.onerror = () => resolve("refused");
        });
      })()`);
      assert.equal(kernel, "open", "a notebook talks to its kernel");
    },
  },
  "django-demo": {
    secrets: {
      SECRET_KEY: "a key for tests that is long enough for Django",
      DJANGO_SUPERUSER_USERNAME: "ada",
      DJANGO_SUPERUSER_EMAIL: "ada@example.test",
      DJANGO_SUPERUSER_PASSWORD: "a password for tests",
    },
    async use(page, url) {
      await page.goTo(`${url}admin/`);
      await page.shows("Username");
      await typeInto(page, "#id_username", "ada");
      await typeInto(page, "#id_password", "a password for tests");
      await page.press("Enter");
      await page.shows("Site administration");
    },
  },
  "flask-demo": {
    async use(page) {
      await page.click("About");
      await page.shows("Served by Flask");
    },
  },
  "litellm-demo": {
    secrets: { LITELLM_MASTER_KEY: "sk-for-tests" },
    async use(page, url) {
      // The app's first page loads its parts from other hosts.
      await page.goTo(`${url}health/liveliness`);
      await page.shows("alive");
      const ask = (key: string): Promise<unknown> =>
        page.evaluate(`fetch("/chat/completions", {
          method: "POST",
          headers: { authorization: "Bearer ${key}", "content-type": "application/json" },
          body: JSON.stringify({ model: "greeter", messages: [{ role: "user", content: "Hi" }] }),
        }).then((answer) => answer.text())`);
      assert.match(String(await ask("sk-for-tests")), /Hello from LiteLLM/);
      assert.doesNotMatch(String(await ask("sk-wrong")), /Hello from LiteLLM/);
    },
  },
};

/**
 * A folder with `uv`: pip takes minutes for a hundred packages, most of them to compile what is
 * never loaded.
 */
async function installUv(): Promise<string> {
  const folder = join(packages, "uv");
  await run("python3", ["-m", "venv", folder], { timeout: installMs });
  await run(join(folder, "bin/pip"), ["install", "--quiet", "uv"], { timeout: installMs });
  return folder;
}

/**
 * An environment with the packages of a recipe, as a build would choose them; returns its programs.
 */
async function install(name: string, uv: string, { dependencies }: AppSettings): Promise<string> {
  const folder = join(packages, name);
  const program = join(uv, "bin/uv");
  const options = { timeout: installMs, env: { ...process.env, UV_CACHE_DIR: join(uv, "cache") } };
  await run(
    program,
    ["venv", "--quiet", "--clear", "--python", join(uv, "bin/python"), folder],
    options,
  );
  const into = ["--quiet", "--python", join(folder, "bin/python")];
  await run(program, ["pip", "install", ...into, ...Object.keys(dependencies.pip)], options);
  return join(folder, "bin");
}

/**
 * The recipe with the port and the storage of this test; no namespace separates it from others
 * here.
 */
function placed(
  files: Record<string, string>,
  { port, storage }: { port: string; storage: string },
): Recipe {
  const here = (text: string): string =>
    text.replaceAll("8000", port).replaceAll("/persistent-storage", storage);
  const own = Object.fromEntries(Object.entries(files).map(([name, text]) => [name, here(text)]));
  const { settings } = resolveSettings({
    body: { gitRepo: "acme/shop" },
    configToml: null,
    repositoryToml: { name: "slipway.toml", text: own["slipway.toml"] ?? "" },
    providers: [],
  });
  return { files: own, settings };
}

type Recipe = { readonly files: Record<string, string>; readonly settings: AppSettings };

/** Starts the recipe's server; returns when it listens. */
async function serve(
  t: TestContext,
  { files, settings }: Recipe,
  given: { readonly bin: string; readonly secrets: Record<string, string> },
): Promise<void> {
  const folder = temporaryFolder(t, "recipe");
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const [program = "", ...rest] = settings.entrypoint;
  const child = spawn(program, rest, {
    cwd: folder,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: `${given.bin}:${process.env["PATH"]}`,
      HOME: folder,
      LANG: "C.UTF-8",
      PROJECT_ID: projectId,
      APP_NAME: "hello",
      ...given.secrets,
    },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  }
  t.after(async () => {
    if (child.exitCode !== null || child.pid === undefined) return;
    const ended = once(child, "exit");
    process.kill(-child.pid, "SIGKILL");
    await ended;
  });
  await once(child, "spawn");
  const hasEnded = (): boolean => child.exitCode !== null || child.signalCode !== null;
  const answersOrEnds = async (): Promise<boolean> => hasEnded() || (await answers(settings.port));
  await until("the server answers", answersOrEnds, { deadlineMs: startMs }).catch(
    (error: unknown) => {
      throw new Error(`The server does not answer: ${output}`, { cause: error });
    },
  );
  assert.ok(!hasEnded(), `The server has ended: ${output}`);
}

async function answers(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${port}/`, { redirect: "manual" }).then(
    () => true,
    () => false,
  );
}

const skip = withoutBrowser || (await packageIndexAnswers());
const packages = makeFolder("packages");
const ports = await freePorts(recipes().size);
const ready = [...recipes()].map(([name, files], index) => ({
  name,
  recipe: placed(files, { port: ports[index] ?? "", storage: join(packages, "storage") }),
}));
const drawn = drawCases(ready, { what: "recipes", max: 3 });
/** The programs of each drawn recipe. */
const bins = new Map<string, string>();
after(() => removeFolder(packages));

/** Before the test, since the index may be slow. */
const installed = await ahead(async () => {
  if (skip !== false) return;
  mkdirSync(join(packages, "storage"));
  const uv = await installUv();
  for (const { name, recipe } of drawn) bins.set(name, await install(name, uv, recipe.settings));
});

test("the recipes of the guide are used in a browser", { skip, timeout: allMs }, async (t) => {
  installed();
  const found = findBrowser();
  assert.ok("program" in found);
  assert.deepEqual([...recipes().keys()].toSorted(), Object.keys(uses).toSorted());
  const browser = await startBrowser(t, found.program);
  for (const { name, recipe } of drawn) {
    await t.test(name, async (part) => {
      const { secrets = {}, use } = uses[name] ?? assert.fail(name);
      const { settings } = recipe;
      assert.equal(settings.disableAuth, true);
      const bin = bins.get(name) ?? assert.fail(name);
      await serve(part, recipe, { bin, secrets });
      const bed = await openProxyBed(part, { route: { disableAuth: true }, settings });
      bed.setReplicas(settings.port);
      const page = await browser.open();
      const url = `http://hello-${projectId}.localhost:${bed.port}/`;
      await page.goTo(url);
      await use(page, url);
      if (name !== "gradio-demo") return;
      const inSandbox = await browser.open();
      await inSandbox.goTo(`http://127.0.0.1:${bed.port}${helloPath}/`);
      await inSandbox.shows("Submit");
      assert.equal(await inSandbox.evaluate("self.origin"), "null");
      await inSandbox.click("Submit");
      await inSandbox.shows("Connection to the server was lost");
    });
  }
});
