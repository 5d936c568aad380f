// The commands and programs that call an app, run as they are against a server.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, test, type TestContext } from "node:test";
import { promisify } from "node:util";
import { callText, kinds, languages } from "./call-texts.ts";

const run = promisify(execFile);
const programs = {
  curl: ["bash", "-c"],
  Python: ["python3", "-c"],
  JavaScript: [process.execPath, "-e"],
} as const;

/** Answers with what it was sent; an async call with a run id. */
async function startApp(t: TestContext): Promise<string> {
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      const { method, url = "", headers } = request;
      const seen = [method, url, headers.authorization, headers["content-type"], body].join(" ");
      response.end(url.includes("async=true") ? JSON.stringify({ run_id: seen }) : seen);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v4/p-1/app`;
}

describe("what calls an app", { concurrency: true }, () => {
  for (const language of languages) {
    test(`in ${language} sends what each kind of call takes, with the token if there is one`, async (t) => {
      const url = await startApp(t);
      const [program, option] = programs[language];
      const answerOf = async (text: string): Promise<string> => {
        const { stdout } = await run(program, [option, text], {
          env: { ...process.env, TOKEN: "t0ken" },
          timeout: 60_000,
        });
        // curl shows the whole answer.
        return stdout
          .trim()
          .replace(/^\{"run_id":"(.*)"\}$/s, (_, id: string) => JSON.parse(`"${id}"`) as string);
      };
      const json = "application/json {}";
      for (const kind of kinds) {
        const query = kind === "Async" ? "?async=true" : "";
        const closed = callText({ kind, language }, { url, isOpen: false, isCustom: false });
        assert.equal(
          await answerOf(closed),
          `POST /v4/p-1/app/run${query} Bearer t0ken ${json}`,
          closed,
        );
        const open = callText({ kind, language }, { url, isOpen: true, isCustom: true });
        const expected =
          kind === "Async" ? `POST /v4/p-1/app/${query}  ${json}` : "GET /v4/p-1/app/";
        assert.equal(await answerOf(open), expected, open);
      }
    });
  }
});
