// The guide "People and tokens", taken from the guide itself: its commands are run by bash, in a home folder that is
// empty, against a real platform process, and must print what the guide shows. The sign-in is on a terminal, and is
// approved as a person does it.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { test, type TestContext } from "node:test";
import type { Permission } from "@slipway/contract/words.ts";
import { settingTable } from "#config-table.ts";
import { permissionsOf } from "#accounts/permissions.ts";
import { temporaryFolder } from "./support/folder.ts";
import { shownForm } from "./support/guide.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import type { Json } from "./support/management-api.ts";
import { until } from "./support/until.ts";

const projectDir = join(import.meta.dirname, "../..");
const guide = join(projectDir, "docs/guides/people-and-tokens.md");
const terminal = join(import.meta.dirname, "support/on-terminal.py");
const stepMs = 60_000;
const hasTerminal = spawnSync("python3", ["-c", "import pty"], { timeout: 20_000 }).status === 0;

/** A code block and what its mark says about it. `run`: commands for the shell; `login`: one that a person has to approve. */
type Block = { readonly mark: string; readonly commands: string; readonly shown: string };

function blocksOf(text: string): Block[] {
  const form = /<!-- (run|login) -->\n```bash\n([\s\S]*?)```(?:\n\n```text\n([\s\S]*?)\n```)?/g;
  return [...text.matchAll(form)].map(([, mark = "", commands = "", shown = ""]) => ({ mark, commands, shown }));
}

/** The shell that the reader types into: variables stay from block to block; both outputs come in their order. */
class Shell {
  readonly #child;
  #printed = "";
  #steps = 0;

  constructor(t: TestContext, home: string) {
    const kept = Object.entries(process.env).filter(([name]) => !name.startsWith("SLIPWAY_"));
    const environment = {
      ...Object.fromEntries(kept),
      HOME: home,
      PATH: `${dirname(process.execPath)}:${process.env["PATH"] ?? ""}`,
    };
    const child = spawn("bash", ["-eu"], { cwd: projectDir, detached: true, env: environment });
    this.#child = child;
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk: Buffer) => (this.#printed += chunk.toString()));
    }
    child.stdin.on("error", () => undefined);
    child.stdin.write("exec 2>&1\n");
    t.after(async () => {
      if (this.#hasEnded() || child.pid === undefined) return;
      const gone = once(child, "exit");
      process.kill(-child.pid, "SIGKILL");
      await gone;
    });
  }

  /** What the commands print. `meanwhile` sees it grow. Fails when one of them does. */
  async run(
    commands: string,
    meanwhile: (printed: string) => Promise<void> = () => Promise.resolve(),
  ): Promise<string> {
    const end = `=====step ${++this.#steps}=====\n`;
    this.#printed = "";
    this.#child.stdin.write(`${commands}\necho '${end.trim()}'\n`);
    const isOver = async (): Promise<boolean> => {
      await meanwhile(this.#printed);
      return this.#printed.endsWith(end) || this.#hasEnded();
    };
    await until(`a step of the guide is done: ${commands}`, isOver, { deadlineMs: stepMs }).catch(() => undefined);
    assert.ok(this.#printed.endsWith(end), `${commands}\nends in\n${this.#printed.slice(-4_000)}`);
    return this.#printed.slice(0, -end.length).replaceAll("\r\n", "\n").trim();
  }

  #hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }
}

/** Approves the code that was printed, as the owner, once. */
function approver({ bootstrap }: PlatformProcess): (printed: string) => Promise<void> {
  let isDone = false;
  return async (printed) => {
    const code = /code=([A-Z]{4}-[A-Z]{4})/.exec(printed)?.[1];
    if (code === undefined || isDone) return;
    isDone = true;
    const post = async (path: string, body: object, token?: string): Promise<Json> => {
      const headers = {
        "content-type": "application/json",
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      };
      const response = await fetch(bootstrap.baseUrl + path, { method: "POST", headers, body: JSON.stringify(body) });
      assert.equal(response.status, 200, path);
      return await response.json();
    };
    const signIn = { email: bootstrap.ownerEmail, password: bootstrap.ownerPassword };
    const { accessToken } = await post("/v2/auth/sign-in", signIn);
    await post(`/v2/auth/device-logins/${code}`, { decision: "approve" }, accessToken);
  };
}

/** Standard input is where the shell's next commands come from: it is not for this one. */
function onTerminal(command: string): string {
  return `python3 ${terminal} ${command.trim()} </dev/null`;
}

test(
  "what the guide to people and tokens tells to do works, and prints what it shows",
  { skip: hasTerminal ? false : "python3 with the module pty is needed for a terminal" },
  async (t) => {
    const blocks = blocksOf(await readFile(guide, "utf8"));
    const platform = await startPlatformOnTestServer(t);
    const shell = new Shell(t, temporaryFolder(t, "home"));
    for (const { mark, commands, shown } of blocks) {
      const typed = commands.replaceAll(".slipway/", `${platform.dataDir}/`);
      const printed =
        mark === "login" ? await shell.run(onTerminal(typed), approver(platform)) : await shell.run(typed);
      const expected = shown
        .replaceAll("http://127.0.0.1:7070", platform.bootstrap.baseUrl)
        // The code of a device is another one each time.
        .replaceAll("BCDF-GHJK", "…");
      assert.match(printed, shownForm(expected), `${commands}\nprints\n${printed}`);
    }
  },
);

test("every block of commands in the guide is marked, so that it is run, and shows what it prints", async () => {
  const text = await readFile(guide, "utf8");
  const blocks = blocksOf(text);
  assert.equal(blocks.length, text.match(/^```bash$/gm)?.length);
  assert.equal(blocks.filter(({ shown }) => shown !== "").length, text.match(/^```text$/gm)?.length);
  assert.ok(blocks.length > 12, `${blocks.length} blocks`);
});

test("the settings that the guide names are there", async () => {
  const own = new Set(["SLIPWAY_URL", "SLIPWAY_TOKEN", "SLIPWAY_PROJECT", "SLIPWAY_CI_TOKEN"]);
  const named = new Set((await readFile(guide, "utf8")).match(/SLIPWAY_[A-Z_]+/g));
  const unknown = [...named].filter((name) => !own.has(name) && !Object.hasOwn(settingTable, name));
  assert.deepEqual(unknown, []);
});

test("the guide's table of roles says what roles may do", async () => {
  const text = await readFile(guide, "utf8");
  const rowOf = (role: string): string => new RegExp(`^\\| \`${role}\` \\| (.*) \\|$`, "m").exec(text)?.[1] ?? "";
  const own = { member: rowOf("member"), admin: rowOf("admin"), owner: rowOf("owner"), billing: rowOf("billing") };
  /** Words of a row, with what they promise. */
  const promises: readonly [keyof typeof own, string, readonly Permission[]][] = [
    ["member", "create, change and call apps", ["apps.create", "apps.update", "apps.call"]],
    ["member", "builds, logs, runs, webhooks", ["builds.create", "logs.read", "runs.redrive", "webhooks.write"]],
    ["member", "read and set secrets", ["secrets.read", "secrets.write"]],
    ["admin", "delete apps", ["apps.delete"]],
    ["admin", "set git credentials", ["credentials.write"]],
    ["admin", "create and revoke tokens", ["tokens.write"]],
    ["admin", "invite and change members", ["members.write"]],
    ["admin", "see usage and costs", ["billing.read"]],
    ["admin", "rename the project", ["projects.update"]],
    ["owner", "delete the project", ["projects.delete"]],
    ["owner", "read, export and forward the audit log", ["audit_log.read", "audit_log.forward"]],
    ["owner", "redeem coupons, set budgets", ["billing.write"]],
    ["billing", "redeem coupons, set budgets", ["billing.write"]],
    ["billing", "usage and costs", ["billing.read"]],
  ];
  const lower = { admin: "member", owner: "admin" } as const;
  for (const [role, words, permissions] of promises) {
    assert.ok(own[role].includes(words), `${role}: ${words}`);
    for (const permission of permissions) {
      assert.ok(permissionsOf(role).has(permission), `${role} may ${permission}`);
      if (role in lower)
        assert.ok(!permissionsOf(lower[role as keyof typeof lower]).has(permission), `only ${role} may ${permission}`);
    }
  }
});
