// The guide "The audit log", taken from the guide itself: its commands are run by bash against a real platform process,
// one after the other, and must answer what the guide shows.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { actionTable } from "#audit/actions.ts";
import { temporaryFolder } from "./support/folder.ts";
import { startPlatform } from "./support/platform-process.ts";

const projectDir = join(import.meta.dirname, "../..");
const guide = join(projectDir, "docs/guides/audit-log.md");
const scriptMs = 60_000;
const mark = "=====";
const guidePort = "9001";

/** Matches what the guide shows; "…" stands for anything. */
function formOf(shown: string): RegExp {
  const parts = shown.split("…").map((part) => RegExp.escape(part));
  return new RegExp(`^${parts.join(".*?")}$`);
}

async function freePort(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return String(port);
}

test("every command of the guide answers what the guide shows", async (t) => {
  const port = await freePort();
  const text = (await readFile(guide, "utf8")).replaceAll(guidePort, port);
  const form = /<!-- run -->\n```bash\n([\s\S]*?)```(?:\n\n```(?:json|text)\n([\s\S]*?)\n```)?/g;
  const blocks = [...text.matchAll(form)].map(([, commands = "", shown = null]) => ({ commands, shown }));
  assert.equal(blocks.length, text.match(/```bash/g)?.length, "every block of commands is run");
  const platform = await startPlatform(t, { SLIPWAY_WEBHOOK_ALLOW: "127.0.0.1/32" });
  const script = blocks.map(
    ({ commands }) => `${commands.replaceAll(".slipway/", `${platform.dataDir}/`)}\necho '${mark}'`,
  );
  const programs = [join(projectDir, "cli/bin"), join(projectDir, "node_modules/.bin"), process.env["PATH"]];
  // Whatever the script starts ends with it.
  const whole = ["trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", ...script].join("\n");
  const { stdout } = await promisify(execFile)("bash", ["-eu", "-c", whole], {
    timeout: scriptMs,
    cwd: temporaryFolder(t, "guide"),
    env: { ...process.env, PATH: programs.join(":") },
  });
  const answers = stdout.replaceAll("\r\n", "\n").split(`${mark}\n`);
  for (const [index, { commands, shown }] of blocks.entries()) {
    if (shown !== null) assert.match((answers[index] ?? "").trim(), formOf(shown), commands);
  }
  assert.ok(!stdout.includes("swordfish"), "no secret in any entry");
  const pages = Number(/^(\d+) pages$/m.exec(stdout)?.[1]);
  assert.ok(pages >= 2 && pages < 50, `${pages} pages`);
});

test("the guide lists every action, as the table of actions has it", async () => {
  const text = await readFile(guide, "utf8");
  const rows = Object.entries(actionTable).map(([action, about]) => `| \`${action}\` | ${about} |`);
  const listed = text.split("\n").filter((line) => /^\| `[a-z_]+\.[a-z_]+` \|/.test(line));
  assert.deepEqual(listed, rows, `the guide's list should be:\n${rows.join("\n")}`);
});
