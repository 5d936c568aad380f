// The guide "Async runs and webhooks", taken from the guide itself: its commands are run by bash against a real platform
// process, its receivers are saved, started and sent deliveries, and all must answer and print what the guide shows.
import assert from "node:assert/strict";
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { readFile, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { test, type TestContext } from "node:test";
import { settingTable } from "#config-table.ts";
import { serveExamples } from "./support/examples.ts";
import { temporaryFolder } from "./support/folder.ts";
import { freePorts } from "./support/guide.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { until } from "./support/until.ts";

const projectDir = join(import.meta.dirname, "../..");
const guide = join(projectDir, "docs/guides/async-runs-and-webhooks.md");

/**
 * A code block and what its mark says about it. `run`: commands for the reader's shell; `platform`: how the platform is
 * started; `restart`: commands after which it is started again; `file`: to be saved; `terminal`: keeps a terminal;
 * `prints`: what such a terminal shows.
 */
type Block = {
  readonly mark: string;
  /** Of the file that is saved, or that the terminal runs. */
  readonly name: string;
  readonly text: string;
  /** The answer shown right below it. */
  readonly shown: string | null;
};

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

const stepMs = 60_000;
/** The ports that the guide's receivers have. */
const guidePorts = ["9001", "9002", "9003"] as const;

function blocksOf(text: string): Block[] {
  const form =
    /<!-- (run|platform|restart|file|terminal|prints)(?: ([\w.]+))? -->\n```\w+\n([\s\S]*?)```(?:\n\n```(?:json|text)\n([\s\S]*?)```)?/g;
  return [...text.matchAll(form)].map(([, mark = "", name = "", code = "", shown = null]) => ({
    mark,
    name,
    text: code,
    shown,
  }));
}

/** Matches what the guide shows; "…" stands for anything. */
function formOf(shown: string): RegExp {
  const parts = shown
    .trim()
    .split("…")
    .map((part) => RegExp.escape(part));
  return new RegExp(`^${parts.join("[\\s\\S]*?")}$`);
}

/** A process of the reader, with all that it printed so far. Its whole group ends with the test. */
class Terminal {
  readonly child: Child;
  printed = "";
  /** How far `prints` has read. */
  #readTo = 0;

  constructor(t: TestContext, folder: string, args: readonly string[]) {
    const environment = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env["PATH"] ?? ""}` };
    this.child = spawn("bash", args, { cwd: folder, detached: true, env: environment });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.on("data", (chunk: Buffer) => (this.printed += chunk.toString()));
    }
    t.after(() => this.#end());
  }

  get hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** Resolves when a line like this one is printed, behind those that were waited for before. */
  async prints(shown: string): Promise<void> {
    const form = new RegExp(formOf(shown).source, "m");
    const found = await until(`a terminal prints ${shown}`, () => form.exec(this.printed.slice(this.#readTo)), {
      deadlineMs: stepMs,
    }).catch((error: unknown) => assert.fail(`${String(error)}; it printed\n${this.printed}`));
    this.#readTo += found.index + found[0].length;
  }

  async #end(): Promise<void> {
    if (this.hasEnded || this.child.pid === undefined) return;
    const gone = once(this.child, "exit");
    process.kill(-this.child.pid, "SIGKILL");
    await gone;
  }
}

/** The shell that the reader types into: variables and functions stay from block to block. */
class Shell {
  readonly #terminal: Terminal;
  #answer = "";
  #steps = 0;

  constructor(t: TestContext, folder: string) {
    this.#terminal = new Terminal(t, folder, ["-eu"]);
    this.#terminal.child.stdout.on("data", (chunk: Buffer) => (this.#answer += chunk.toString()));
    // It fails with what the shell printed, below.
    this.#terminal.child.stdin.on("error", () => undefined);
  }

  /** What the commands answer. Fails when one of them does. */
  async run(commands: string): Promise<string> {
    const end = `=====step ${++this.#steps}=====\n`;
    this.#answer = "";
    this.#terminal.child.stdin.write(`${commands}\necho '${end.trim()}'\n`);
    const isOver = (): boolean => this.#answer.endsWith(end) || this.#terminal.hasEnded;
    const failed = (): never => assert.fail(`${commands}\nends in\n${this.#terminal.printed.slice(-4_000)}`);
    await until("a step of the guide is done", isOver, { deadlineMs: stepMs }).catch(failed);
    if (!this.#answer.endsWith(end)) failed();
    return this.#answer.slice(0, -end.length).replaceAll("\r\n", "\n").trim();
  }
}

/** Somebody who does what the guide says. */
class Reader {
  readonly #t: TestContext;
  readonly #folder: string;
  readonly #shell: Shell;
  readonly #gitUrl: string;
  readonly #ports: readonly string[];
  readonly #terminals = new Map<string, Terminal>();
  #platform: PlatformProcess | undefined;
  #secret = "";

  constructor(t: TestContext, given: { folder: string; gitUrl: string; ports: readonly string[] }) {
    this.#t = t;
    this.#folder = given.folder;
    this.#gitUrl = given.gitUrl;
    this.#ports = given.ports;
    this.#shell = new Shell(t, given.folder);
  }

  async follow(block: Block): Promise<void> {
    const { mark, name } = block;
    const text = this.#adapted(block.text);
    if (mark === "platform") return await this.#startPlatform(text);
    if (mark === "file") return await writeFile(join(this.#folder, name), text);
    if (mark === "terminal") return await this.#openTerminal(name, text);
    if (mark === "prints") return await this.#terminal(name).prints(text.trim());
    const answer = await this.#shell.run(text);
    if (block.shown !== null) {
      assert.match(answer, formOf(this.#adapted(block.shown)), `${text}\nanswers\n${answer}`);
    }
    // The first one is what the receivers are started with.
    this.#secret ||= /"secret":"(whsec_[^"]+)"/.exec(answer)?.[1] ?? "";
    if (mark === "restart") await this.#startAgain();
  }

  /** What a terminal has printed. */
  printed(name: string): string {
    return this.#terminal(name).printed;
  }

  #adapted(text: string): string {
    const dataDir = this.#platform?.dataDir ?? "";
    return guidePorts
      .reduce((adapted, port, index) => adapted.replaceAll(port, String(this.#ports[index])), text)
      .replaceAll(".slipway/", `${dataDir}/`)
      .replaceAll("'whsec_…'", `'${this.#secret}'`);
  }

  async #startPlatform(command: string): Promise<void> {
    assert.match(command.trim(), / npm start$/);
    const settings = [...command.matchAll(/(SLIPWAY_\w+)=('[^']*'|\S+)/g)].map(([, key = "", value = ""]) => [
      key,
      value.replaceAll("'", ""),
    ]);
    const own = { SLIPWAY_GIT_URL: this.#gitUrl, SLIPWAY_PORT: String(this.#ports.at(-1)) };
    this.#platform = await startPlatformOnTestServer(this.#t, {
      ...(Object.fromEntries(settings) as Record<string, string>),
      ...own,
    });
  }

  async #startAgain(): Promise<void> {
    await this.#platform?.ended();
    await this.#platform?.restart();
  }

  async #openTerminal(name: string, command: string): Promise<void> {
    const terminal = new Terminal(this.#t, this.#folder, ["-c", command]);
    this.#terminals.set(name, terminal);
    await terminal.prints("receiving");
  }

  #terminal(name: string): Terminal {
    const terminal = this.#terminals.get(name);
    if (terminal === undefined) throw new Error(`the guide starts no ${name}`);
    return terminal;
  }
}

test("what the guide to async runs and webhooks tells to do works, and answers as it shows", async (t) => {
  const blocks = blocksOf(await readFile(guide, "utf8"));
  const folder = temporaryFolder(t, "guide");
  // In place of `npm install standardwebhooks`.
  await symlink(join(projectDir, "node_modules"), join(folder, "node_modules"));
  const ports = await freePorts(guidePorts.length + 1);
  const reader = new Reader(t, { folder, gitUrl: await serveExamples(t), ports });
  for (const block of blocks) await reader.follow(block);
  for (const name of ["receiver.py", "receiver.mts", "caller_receiver.py"]) {
    const printed = reader.printed(name);
    assert.match(printed, /^(new|genuine) /m, `${name} verified a delivery`);
    assert.match(printed, /^refused/m, `${name} refused a forged one`);
    assert.doesNotMatch(printed, /Error|Warning/, name);
  }
});

test("every command and program of the guide is marked, so that it is run", async () => {
  const text = await readFile(guide, "utf8");
  const code = text.match(/^```(?:bash|sh|python|ts)$/gm) ?? [];
  const marked = blocksOf(text).filter(({ mark }) => mark !== "prints");
  assert.equal(marked.length, code.length);
  assert.ok(marked.length > 30, `the guide has ${marked.length} blocks`);
});

test("the guide's table of limits has the defaults of the settings", async () => {
  const rows = (await readFile(guide, "utf8")).matchAll(
    /^\| [^|]+ \| [^|\d\n]*(\d+)\b[^|\n]* \| `(SLIPWAY_\w+)` \|$/gm,
  );
  const shown = [...rows].map(([, value, name = ""]) => [name, value]);
  assert.ok(shown.length >= 6, `the guide names ${shown.length} settings`);
  const defaults: Readonly<Record<string, { readonly default: string | null }>> = settingTable;
  assert.deepEqual(
    shown,
    shown.map(([name = ""]) => [name, defaults[name]?.default]),
  );
});
