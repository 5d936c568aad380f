// What the command line shows of texts that strangers decide: no control character reaches the
// terminal, whichever way the text takes.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { temporaryFolder } from "./support/folder.ts";
import { commandsAt } from "./support/slipway-command.ts";

/** All but tab and newline, with those of Unicode's second block. */
const control = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/;
/** Sets the title of a terminal's window, and clears it with a control character of one byte. */
const hostile = "a\x1b]0;OWNED\x07b\u009b2J\x7fc";
const harmless = "a]0;OWNEDb2Jc";

const projects = '[{"id": "p-11111111", "name": "mine"}]';

async function commandsOf(t: TestContext, answer: RequestListener) {
  const server = createServer(answer).listen(0, "127.0.0.1");
  t.after(() => void (server.closeAllConnections(), server.close()));
  await once(server, "listening");
  const env = {
    SLIPWAY_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    SLIPWAY_TOKEN: "token",
    SLIPWAY_PROJECT: "p-11111111",
  };
  return commandsAt(t, { env });
}

test("names of files and settings of a stranger's folder have no control characters", async (t) => {
  const slipway = await commandsOf(t, (_request, response) => {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(projects);
  });
  const folder = temporaryFolder(t, "app");
  const toml = (text: string): void => writeFileSync(join(folder, "slipway.toml"), text);
  writeFileSync(join(folder, "main.py"), "def run():\n    pass\n");
  toml('[cerebrium.deployment]\nname = "hello"\n');
  symlinkSync("nowhere", join(folder, hostile));
  const assertPlain = async (words: readonly string[]): Promise<void> => {
    const { code, stderr, stdout } = await slipway(words).ended;
    assert.notEqual(code, 0, words.join(" "));
    assert.doesNotMatch(stderr + stdout, control, words.join(" "));
    assert.ok(stderr.includes(harmless), stderr);
  };
  await assertPlain(["deploy", folder]);
  await assertPlain(["deploy", join(folder, hostile)]);
  await assertPlain([hostile]);
  rmSync(join(folder, hostile));
  toml('[cerebrium.deployment]\nname = "hello"\ninclude = ["[\u009b2J"]\n');
  const { stderr } = await slipway(["deploy", folder]).ended;
  assert.match(stderr, /which is not a valid pattern/);
  assert.doesNotMatch(stderr, control);
});

test("what a server sends has no control characters, also where it is not what was asked for", async (t) => {
  const slipway = await commandsOf(t, ({ url = "" }, response) => {
    if (url.includes("follow")) {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.end(`id: 1\ndata: ${hostile}\n\n`);
    } else if (url.includes("/logs")) {
      response.writeHead(200, { "content-type": "application/json" });
      response.end('{"logs": []}');
    } else if (/\/projects(?:$|\?)/.test(url)) {
      response.writeHead(200, { "content-type": "application/json" });
      response.end(projects);
    } else {
      response.writeHead(400, { "content-type": "application/json" });
      response.end(JSON.stringify({ message: hostile }));
    }
  });
  const refused = await slipway(["apps"]).ended;
  assert.notEqual(refused.code, 0);
  assert.ok(refused.stderr.includes(harmless), refused.stderr);
  assert.doesNotMatch(refused.stderr, control);
  const broken = await slipway(["logs", "hello", "-f"]).ended;
  assert.notEqual(broken.code, 0);
  assert.match(broken.stderr, /SyntaxError.*OWNED/);
  assert.doesNotMatch(broken.stderr + broken.stdout, control);
});
