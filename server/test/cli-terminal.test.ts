// The command line with a person at a terminal: questions before something is destroyed, secrets
// that are not shown, and Ctrl-C.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { temporaryFolder } from "./support/folder.ts";
import { startManagementApi, type ApiUnderTest } from "./support/management-api.ts";
import { until } from "./support/until.ts";

const main = join(import.meta.dirname, "../../cli/src/main.ts");
const terminal = join(import.meta.dirname, "support/on-terminal.py");
const skip =
  spawnSync("python3", ["-c", "import pty"]).status === 0
    ? false
    : "python3 with the module pty is needed";

type Typed = {
  readonly words: readonly string[];
  readonly question: string;
  readonly answer: string;
  readonly environment?: Readonly<Record<string, string>>;
};

/**
 * Types `answer` when `question` is shown; resolves with all that the terminal showed, and the exit
 * code.
 */
async function onTerminal(
  t: TestContext,
  api: ApiUnderTest,
  { words, question, answer, environment = {} }: Typed,
): Promise<{ code: number; shown: string }> {
  const child = spawn("python3", [terminal, process.execPath, main, ...words], {
    env: {
      PATH: process.env["PATH"],
      HOME: temporaryFolder(t, "home"),
      TERM: "xterm",
      SLIPWAY_URL: api.baseUrl,
      SLIPWAY_TOKEN: api.token,
      SLIPWAY_PROJECT: api.projectId,
      ...environment,
    },
    stdio: ["pipe", "pipe", "inherit"],
  });
  t.after(() => void child.kill("SIGKILL"));
  let shown = "";
  child.stdout.on("data", (chunk: Buffer) => (shown += chunk.toString()));
  const ended = once(child, "close");
  await until(`it asks ${question}`, () => shown.includes(question), { deadlineMs: 60_000 });
  child.stdin.write(answer);
  const [code] = (await ended) as [number];
  return { code, shown };
}

test(
  "what is destroyed is asked for, and only yes destroys it; Ctrl-C ends with 130 and no stack",
  { skip },
  async (t) => {
    const api = await startManagementApi(t);
    const path = `/v2/projects/${api.projectId}/apps`;
    await api.call("POST", `${path}/git`, { body: { name: "hello", gitRepo: "acme/examples" } });
    const question =
      "Delete the app hello with its logs, runs, secrets and storage of its own? [y/N]";
    const ask = (answer: string) =>
      onTerminal(t, api, { words: ["apps", "delete", "hello"], question, answer });
    const refused = await ask("n\r");
    assert.equal(refused.code, 1);
    assert.match(refused.shown, /Nothing was changed\./);
    const interrupted = await ask("\x03");
    assert.equal(interrupted.code, 130);
    assert.doesNotMatch(interrupted.shown, /at .*\.ts|Error/);
    assert.equal((await ask("\x04")).code, 1);
    assert.equal((await api.call("GET", path)).body.length, 1);
    assert.equal((await ask("y\r")).code, 0);
    assert.equal((await api.call("GET", path)).body.length, 0);
  },
);

test("a secret that is typed is set and not shown", { skip }, async (t) => {
  const api = await startManagementApi(t);
  const given = { words: ["secrets", "set", "KEY"], question: "KEY: ", answer: "hush\r" };
  const { code, shown } = await onTerminal(t, api, given);
  assert.equal(code, 0, shown);
  assert.ok(!shown.includes("hush"), shown);
  assert.deepEqual((await api.call("GET", `/v2/projects/${api.projectId}/secrets`)).body, {
    KEY: "hush",
  });
});

test("states have colours on a terminal, unless NO_COLOR says no", { skip }, async (t) => {
  const api = await startManagementApi(t);
  await api.call("POST", `/v2/projects/${api.projectId}/apps/git`, {
    body: { name: "hello", gitRepo: "acme/examples" },
  });
  const given = { words: ["apps"], question: "hello", answer: "" };
  assert.match((await onTerminal(t, api, given)).shown, /hello.*\x1b\[33m/);
  assert.ok(
    !(await onTerminal(t, api, { ...given, environment: { NO_COLOR: "1" } })).shown.includes(
      "\x1b",
    ),
  );
});
