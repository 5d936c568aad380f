// What `slipway init` writes is deployed as it is, and answers: servers of Python from the package
// index, on a real platform.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "#test/support/folder.ts";
import { packageIndexAnswers } from "#test/support/package-index.ts";
import { startPlatformOnTestServer } from "#test/support/platform-on-test-server.ts";
import { commandsAt } from "#test/support/slipway-command.ts";

const skip = await packageIndexAnswers();

const gradio = `import gradio as gr

demo = gr.Interface(lambda name: "Hello, " + name, "text", "text", title="A demo")
demo.launch()
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
};

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
    files: { "app.py": "import streamlit as st\nst.title('A demo')\n" },
    answers: /Streamlit/,
  },
  { name: "of-gradio", files: { "app.py": gradio }, answers: /A demo/ },
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
    for (const { name, files, answers } of kinds) {
      await t.test(name, async () => {
        const folder = temporaryFolder(t, name);
        for (const [path, content] of Object.entries(files))
          writeFileSync(join(folder, path), content);
        const made = await slipway(["init", folder, "--name", name]).ended;
        assert.equal(made.code, 0, made.stderr);
        const deployed = await slipway(["deploy", folder]).ended;
        assert.equal(deployed.code, 0, deployed.stderr);
        const answer = await platform.call(name, "", undefined, { method: "GET" });
        const text = await answer.text();
        assert.equal(answer.status, 200, text);
        assert.match(text, answers);
      });
    }
  },
);
