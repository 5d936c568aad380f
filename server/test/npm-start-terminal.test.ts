// What a person sees who types `npm start` on a terminal: where the dashboard is and what to do
// next, and after Ctrl-C no warning.
import "./support/leftovers.ts";
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { test } from "node:test";
import { emptyDatabase } from "./support/database.ts";
import { temporaryFolder } from "./support/folder.ts";
import { templateName } from "./support/test-server.ts";
import { until } from "./support/until.ts";

const root = join(import.meta.dirname, "../..");
const terminal = join(import.meta.dirname, "support/on-terminal.py");
const skip =
  spawnSync("python3", ["-c", "import pty"]).status === 0
    ? false
    : "python3 with the module pty is needed";

test(
  "npm start ends with the next step, and a stop with Ctrl-C is no warning",
  { skip, timeout: 110_000 },
  async (t) => {
    const url = await emptyDatabase(t, { template: templateName });
    const dataDir = temporaryFolder(t, "data");
    const child = spawn("python3", [terminal, "npm", "start"], {
      cwd: root,
      env: {
        PATH: process.env["PATH"],
        HOME: temporaryFolder(t, "home"),
        TERM: "xterm",
        SLIPWAY_PORT: "0",
        SLIPWAY_DATA_DIR: dataDir,
        SLIPWAY_DATABASE_URL: url.reveal(),
        SLIPWAY_DRIVER: "process",
      },
      stdio: ["pipe", "pipe", "inherit"],
    });
    let shown = "";
    child.stdout.on("data", (chunk: Buffer) => (shown += chunk.toString()));
    const ended = once(child, "close");
    t.after(async () => {
      // The terminal that closes ends what runs on it.
      child.kill("SIGKILL");
      await ended;
    });
    await until("it says how to stop it", () => shown.includes("slipway down"), {
      deadlineMs: 90_000,
    });
    const [, baseUrl = "", rest = ""] = /slipway ready (http:\S+)\r?\n([\s\S]*)$/.exec(shown) ?? [];
    const lines = rest.split(/\r?\n/);
    assert.equal(
      lines[0],
      `Dashboard: ${baseUrl}/dashboard (sign in with ownerEmail and ownerPassword in ${join(dataDir, "bootstrap.json")})`,
    );
    assert.match(
      lines[1] ?? "",
      /^Next, in another terminal: slipway up, .*slipway init, slipway deploy$/,
    );
    assert.match(lines[2] ?? "", /^To stop it: Ctrl-C; /);
    const before = shown.length;
    child.stdin.write("\x03");
    const [code] = (await ended) as [number];
    const after = shown.slice(before);
    assert.equal(code, 0, after);
    assert.match(after, /stopped/);
    assert.doesNotMatch(after, /warn|error|fatal|npm ERR|\bat .*\.ts:/i);
  },
);
