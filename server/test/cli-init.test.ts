// What `slipway init` writes is deployed as it is, and answers: servers of Python from the package
// index, on a real platform. The page of a demo is used in a browser, at the address that the
// command line names; below the app's path, in the sandbox, it gets no data and says so.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { findBrowser, startBrowser, type Browser, type Page } from "#test/support/browser.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { packageIndexAnswers } from "#test/support/package-index.ts";
import { withoutBrowser } from "#test/support/page-stage.ts";
import { startPlatformOnTestServer } from "#test/support/platform-on-test-server.ts";
import { commandsAt } from "#test/support/slipway-command.ts";
import { until } from "#test/support/until.ts";

/** For the packages of a demo, on a machine that does much else. */
const installMs = 600_000;
const skip = await packageIndexAnswers();

const gradio = `import gradio as gr

demo = gr.Interface(lambda name: "Hello, " + name, "text", "text", title="A demo")
demo.launch()
`;
const streamlit = `import streamlit as st

st.title("A demo")
name = st.text_input("Name")
if name:
    st.write("Hello, " + name)
`;
const flask = `from flask import Flask

web = Flask(__name__)

@web.get("/")
def home():
    return "of a Procfile"
`;

type Kind = {
  readonly name: string;
  readonly files: Readonly<Record<string, string>>;
  readonly answers: RegExp;
  /** What a person does on its page at the app's own address, and by its path. */
  readonly use?: (page: Page) => Promise<void>;
  readonly useByPath?: (page: Page) => Promise<void>;
};

/** Types a name into the first field of the page, again if the page is drawn anew meanwhile. */
async function typeName(page: Page, field: "input" | "textarea"): Promise<void> {
  const found = `document.querySelector("${field}")`;
  await until("the field has the name", async () => {
    if (!(await page.evaluate(`(${found}?.focus(), ${found}?.select(), ${found} !== null)`)))
      return false;
    await page.send("Input.insertText", { text: "Ada" });
    return await page.evaluate(`${found}?.value === "Ada"`);
  });
}

/** It asks several times before it says so. */
async function saysAtLast(page: Page, text: string): Promise<void> {
  const deadlineMs = 120_000;
  const isThere = async (): Promise<boolean> => (await page.text()).includes(text);
  await until(`the page says: ${text}`, isThere, { deadlineMs });
}

const kinds: readonly Kind[] = [
  {
    name: "of-procfile",
    files: {
      "shop.py": flask,
      Procfile: "web: gunicorn shop:web --bind 0.0.0.0:$PORT\n",
      "requirements.txt": "flask\ngunicorn\n",
    },
    answers: /^of a Procfile$/,
  },
  {
    name: "of-main",
    files: {
      "main.py": `import http.server

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"of a main.py that serves")

http.server.HTTPServer(("0.0.0.0", 8000), Handler).serve_forever()
`,
    },
    answers: /^of a main\.py that serves$/,
  },
  {
    name: "of-streamlit",
    files: { "app.py": streamlit },
    answers: /Streamlit/,
    use: async (page) => {
      await typeName(page, "input");
      await page.press("Enter");
      await page.shows("Hello, Ada");
    },
    useByPath: (page) => saysAtLast(page, "Connection error"),
  },
  {
    name: "of-gradio",
    files: { "app.py": gradio },
    answers: /A demo/,
    use: async (page) => {
      await typeName(page, "textarea");
      await page.click("Submit");
      const answer = `[...document.querySelectorAll("textarea")].some((one) => one.value === "Hello, Ada")`;
      await until("the app has answered", () => page.evaluate(answer));
    },
    useByPath: async (page) => {
      await page.shows("Submit");
      await page.click("Submit");
      await saysAtLast(page, "Connection to the server was lost");
    },
  },
];

test(
  "what init writes for a folder is deployed as it is, and answers",
  { skip, timeout: 900_000 },
  async (t) => {
    const platform = await startPlatformOnTestServer(t);
    const { baseUrl, serviceAccountToken, projectId } = platform.bootstrap;
    const env = {
      SLIPWAY_URL: baseUrl,
      SLIPWAY_TOKEN: serviceAccountToken,
      SLIPWAY_PROJECT: projectId,
    };
    const slipway = commandsAt(t, { env });
    const found = findBrowser();
    const browser: Browser | null =
      "program" in found ? await startBrowser(t, found.program) : null;
    for (const { name, files, answers, use, useByPath } of kinds) {
      await t.test(name, { timeout: installMs }, async () => {
        const folder = temporaryFolder(t, name);
        for (const [path, content] of Object.entries(files))
          writeFileSync(join(folder, path), content);
        const made = await slipway(["init", folder, "--name", name]).ended;
        assert.equal(made.code, 0, made.stderr);
        if (use !== undefined) openToAll(folder, made.stderr);
        const deployed = await slipway(["deploy", folder]).ended;
        assert.equal(deployed.code, 0, deployed.stderr);
        const answer = await platform.call(name, "", undefined, { method: "GET" });
        const text = await answer.text();
        assert.equal(answer.status, 200, text);
        assert.match(text, answers);
        if (use === undefined || useByPath === undefined) return;
        if (browser === null) return t.diagnostic(`the page is not used: ${withoutBrowser}`);
        const [, pageUrl = ""] = /^ {2}Its page: +(http\S+)$/m.exec(deployed.stdout) ?? [];
        const page = await browser.open();
        await page.goTo(pageUrl);
        await use(page);
        const inSandbox = await browser.open();
        await inSandbox.goTo(`${baseUrl}/v4/${projectId}/${name}/`);
        await useByPath(inSandbox);
      });
    }
  },
);

/** As `init` says where an app has a page. */
function openToAll(folder: string, said: string): void {
  assert.match(said, /set disable_auth = true in slipway\.toml/);
  const file = join(folder, "slipway.toml");
  const toml = readFileSync(file, "utf8");
  assert.match(toml, /^# disable_auth = true$/m);
  // Their many packages take pip minutes.
  const uv = "disable_auth = true\nuse_uv = true";
  writeFileSync(file, toml.replace("# disable_auth = true", uv));
}
