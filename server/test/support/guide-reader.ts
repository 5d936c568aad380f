// Somebody who follows guides, as they are printed: in one home folder, with Slipway's folder at
// ~/slipway, on one platform that the guides start and stop with `slipway up` and `slipway down`.
import assert from "node:assert/strict";
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { escaped } from "./escaped.ts";
import { openEngine } from "./docker-engine.ts";
import { freePorts } from "./free-ports.ts";
import { until } from "./until.ts";

const projectDir = join(import.meta.dirname, "../../..");
/** One step, on a busy machine; longer than the two minutes of the guides' own `wait_for`. */
const stepMs = 180_000;
/** The platform's own port and those that receivers of guides have. */
const guidePorts = ["7070", "9001", "9002", "9003"] as const;

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

/**
 * A block of a guide and the mark above it. `tour` and `run`: commands for the reader's shell;
 * `login`: one that asks on a terminal; `file`: to be saved; `terminal`: keeps a terminal of its
 * own; `prints`: what such a terminal shows.
 */
export type GuideStep = {
  readonly mark: string;
  /** The name of the file that is saved, or that the terminal runs. */
  readonly name: string;
  readonly text: string;
  /** What is shown right below it. */
  readonly shown: string | null;
};

/** The marked blocks of a guide, in order. Fails if a block of commands has no mark. */
export function guideSteps(text: string): GuideStep[] {
  const form =
    /<!-- (tour|run|login|file|terminal|prints):? ?([\w.]*) -->\n```\w+\n([\s\S]*?)```(?:\n\n```(?:json|text)\n([\s\S]*?)```)?/g;
  const steps = [...text.matchAll(form)].map(
    ([, mark = "", name = "", code = "", shown = null]) => ({
      mark,
      name,
      text: code,
      shown,
    }),
  );
  const commands = steps.filter(({ mark }) => mark !== "file" && mark !== "prints");
  assert.equal(
    commands.length,
    text.match(/^```bash$/gm)?.length,
    "every block of commands is run",
  );
  return steps;
}

/**
 * What is shown, as a pattern: "…" is anything within a line; alone on a line, any number of lines.
 */
function shownText(shown: string): RegExp {
  const lines = shown.trim().split("\n");
  const forms = lines.map((line) =>
    line === "…" ? "[^]*?" : line.split("…").map(escaped).join(".*?"),
  );
  return new RegExp(
    `^${forms.join("\n").replaceAll("[^]*?\n", "[^]*?").replaceAll("\n[^]*?", "[^]*?")}$`,
    "m",
  );
}

/** What the tour shows and prints, without what differs each time. */
function leveled(text: string): string {
  return text
    .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{8}-…/g, "ID")
    .replaceAll(/\bp-[0-9a-f]{8}\b/g, "PROJECT")
    .replaceAll(/"run_time_ms":[0-9.e-]+/g, '"run_time_ms":N')
    .replaceAll(/\b[0-9.]+ (s|ms|kB)\b/g, "N $1");
}

/** A process of the reader, with all that it printed so far, whichever stream it used. */
class Terminal {
  readonly child: Child;
  printed = "";
  /** How far `prints` has read. */
  #readTo = 0;

  constructor(
    args: readonly string[],
    at: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
  ) {
    this.child = spawn("bash", args, { ...at, detached: true });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.on("data", (chunk: Buffer) => (this.printed += chunk.toString()));
    }
    // A step fails with what was printed, below.
    this.child.stdin.on("error", () => undefined);
  }

  get hasEnded(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** Resolves when a text like this one is printed, behind those that were waited for before. */
  async prints(shown: string): Promise<void> {
    const form = shownText(shown);
    const found = await until(
      `a terminal prints ${shown}`,
      () => form.exec(this.printed.slice(this.#readTo)),
      {
        deadlineMs: stepMs,
      },
    ).catch((error: unknown) => assert.fail(`${String(error)}; it printed\n${this.printed}`));
    this.#readTo += found.index + found[0].length;
  }

  /** Ends it with all that it has started. */
  async end(): Promise<void> {
    if (this.child.pid === undefined) return;
    const gone = this.hasEnded ? null : once(this.child, "exit");
    try {
      process.kill(-this.child.pid, "SIGKILL");
    } catch {
      // The group's last process has ended by itself.
    }
    await gone;
  }
}

/** What is needed of `bootstrap.json`. */
type Bootstrap = {
  readonly baseUrl: string;
  readonly ownerEmail: string;
  readonly ownerPassword: string;
};

/** Standard input is where the shell's next commands come from: it is not for this one. */
function onTerminal(command: string): string {
  return `python3 ${join(import.meta.dirname, "on-terminal.py")} ${command.trim()} </dev/null`;
}

/** Approves the code that was printed, as the owner, once. */
function approver({ baseUrl, ownerEmail: email, ownerPassword: password }: Bootstrap) {
  let isDone = false;
  return async (printed: string): Promise<void> => {
    const code = /code=([A-Z]{4}-[A-Z]{4})/.exec(printed)?.[1];
    if (code === undefined || isDone) return;
    isDone = true;
    const post = async (
      path: string,
      body: object,
      headers: Record<string, string>,
    ): Promise<unknown> => {
      const sent = {
        method: "POST",
        headers,
        body: JSON.stringify(body),
        signal: AbortSignal.timeout(stepMs),
      };
      const response = await fetch(baseUrl + path, sent);
      assert.equal(response.status, 200, path);
      return await response.json();
    };
    const json = { "content-type": "application/json" };
    const signedIn = (await post("/v2/auth/sign-in", { email, password }, json)) as {
      accessToken: string;
    };
    const asOwner = { ...json, authorization: `Bearer ${signedIn.accessToken}` };
    await post(`/v2/auth/device-logins/${code}`, { decision: "approve" }, asOwner);
  };
}

/** The home of the reader, and the platform's folder in it. */
export class ReadersHome {
  readonly folder: string;
  readonly slipway: string;
  readonly dataDir: string;
  readonly env: NodeJS.ProcessEnv;
  readonly #ports: readonly string[];

  private constructor(
    folder: string,
    ports: readonly string[],
    driver: Readonly<Record<string, string>>,
  ) {
    this.folder = folder;
    this.slipway = join(folder, "slipway");
    this.dataDir = join(this.slipway, ".slipway");
    this.#ports = ports;
    const programs = [
      join(projectDir, "cli/bin"),
      dirname(process.execPath),
      process.env["PATH"] ?? "",
    ];
    this.env = {
      PATH: programs.join(":"),
      HOME: folder,
      LANG: "C.UTF-8",
      SLIPWAY_DATA_DIR: this.dataDir,
      SLIPWAY_PORT: ports[0],
      ...driver,
    };
  }

  /**
   * Creates a home whose ~/slipway has the whole project, without hidden files.
   * SLIPWAY_TEST_GUIDES=docker: apps run in containers.
   */
  static async make(folder: string): Promise<ReadersHome> {
    const driver: Record<string, string> = {
      SLIPWAY_DRIVER: process.env["SLIPWAY_TEST_GUIDES"] ?? "process",
    };
    if (driver["SLIPWAY_DRIVER"] === "docker")
      driver["SLIPWAY_DOCKER_HOST"] = (await openEngine()).dockerHost;
    const home = new ReadersHome(folder, await freePorts(guidePorts.length), driver);
    mkdirSync(home.slipway);
    for (const name of readdirSync(projectDir)) {
      if (!name.startsWith(".")) symlinkSync(join(projectDir, name), join(home.slipway, name));
    }
    return home;
  }

  /** The text of a guide, with ports that are free here. */
  adapted(text: string): string {
    return guidePorts.reduce(
      (now, port, index) => now.replaceAll(port, this.#ports[index] ?? ""),
      text,
    );
  }

  /** What is printed, and what is shown, with the same home and without the code of a sign-in. */
  placed(text: string): string {
    return text
      .replaceAll(this.folder, "/home/ada")
      .replaceAll(/\b[B-DF-HJ-NP-TV-XZ]{4}-[B-DF-HJ-NP-TV-XZ]{4}\b/g, "CODE");
  }

  /** What the first start of the platform wrote. */
  bootstrap(): Bootstrap {
    return JSON.parse(readFileSync(join(this.dataDir, "bootstrap.json"), "utf8")) as Bootstrap;
  }

  /** What lies in the home and in Slipway's folder, without hidden files and caches in the home. */
  files(): readonly string[] {
    const own = readdirSync(this.folder).filter((name) => !name.startsWith("."));
    const examples = readdirSync(join(this.slipway, "examples"), {
      recursive: true,
      encoding: "utf8",
    });
    const paths = [
      ...own.map((name) => `~/${name}`),
      ...readdirSync(this.slipway).map((name) => `~/slipway/${name}`),
      ...examples.map((path) => `~/slipway/examples/${path}`),
    ];
    return paths.filter((path) => !path.includes("__pycache__")).toSorted();
  }
}

/** A shell for one guide: variables and functions stay from step to step. */
export class GuideReader {
  readonly #home: ReadersHome;
  readonly #shell: Terminal;
  readonly #terminals = new Map<string, Terminal>();
  /** What each block of commands has printed. */
  readonly answers: string[] = [];
  #steps = 0;
  /** The secret of the project's webhooks; receivers are started with the first one. */
  #secret = "";

  constructor(home: ReadersHome) {
    this.#home = home;
    this.#shell = new Terminal(["-eu"], { cwd: home.folder, env: home.env });
    this.#shell.child.stdin.write("exec 2>&1\n");
  }

  /** Does what the step says; fails when that fails, or prints something else than the guide. */
  async follow(step: GuideStep): Promise<void> {
    const { mark, name } = step;
    const text = this.#home.adapted(step.text);
    if (mark === "file") return writeFileSync(join(this.#home.slipway, name), text);
    if (mark === "prints") return await this.#terminal(name).prints(text);
    if (mark === "terminal")
      return await this.#open(name, text.replaceAll("'whsec_…'", `'${this.#secret}'`));
    const isLogin = mark === "login";
    const printed = await (isLogin
      ? this.run(onTerminal(text), approver(this.#home.bootstrap()))
      : this.run(text));
    this.#secret ||= /"secret":"(whsec_[^"]+)"/.exec(printed)?.[1] ?? "";
    this.answers.push(printed);
    if (step.shown === null) return;
    const level = mark === "tour" ? leveled : (same: string): string => same;
    const form = shownText(level(this.#home.placed(this.#home.adapted(step.shown))));
    assert.match(level(this.#home.placed(printed)), form, `${text}\nprints\n${printed}`);
  }

  /**
   * What the commands print. Fails when one of them does. `meanwhile` gets what is printed so far,
   * again and again.
   */
  async run(
    commands: string,
    meanwhile: (printed: string) => Promise<void> = () => Promise.resolve(),
  ): Promise<string> {
    const end = `=====step ${++this.#steps}=====\n`;
    const from = this.#shell.printed.length;
    this.#shell.child.stdin.write(`${commands}\necho '${end.trim()}'\n`);
    const isOver = async (): Promise<boolean> => {
      await meanwhile(this.#shell.printed.slice(from));
      return this.#shell.printed.endsWith(end) || this.#shell.hasEnded;
    };
    const failed = (): never =>
      assert.fail(`${commands}\nends in\n${this.#shell.printed.slice(from).slice(-4_000)}`);
    await until("a step of the guide is done", isOver, { deadlineMs: stepMs }).catch(failed);
    if (!this.#shell.printed.endsWith(end)) failed();
    return this.#shell.printed.slice(from, -end.length).replaceAll("\r\n", "\n").trim();
  }

  /** What a terminal of its own has printed. */
  printed(name: string): string {
    return this.#terminal(name).printed;
  }

  /**
   * Ends the shell, the terminals, and what they have started; the platform has a session of its
   * own and goes on.
   */
  async end(): Promise<void> {
    for (const one of [this.#shell, ...this.#terminals.values()]) await one.end();
  }

  async #open(name: string, command: string): Promise<void> {
    const terminal = new Terminal(["-c", command], {
      cwd: this.#home.slipway,
      env: this.#home.env,
    });
    this.#terminals.set(name, terminal);
    await terminal.prints("receiving");
  }

  #terminal(name: string): Terminal {
    const terminal = this.#terminals.get(name);
    if (terminal === undefined) throw new Error(`the guide starts no ${name}`);
    return terminal;
  }
}
