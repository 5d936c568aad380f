// The command line as users run it: its output and its exit codes.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Run } from "./command.ts";
import { commands, type Entry } from "./commands.ts";

const main = fileURLToPath(new URL("main.ts", import.meta.url));
const home = mkdtempSync(join(tmpdir(), "slipway-test-cli-"));
after(() => rmSync(home, { recursive: true }));

function slipway(...parameters: string[]) {
  return slipwayWith({}, ...parameters);
}

function slipwayWith(environment: Record<string, string>, ...parameters: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...parameters], {
    encoding: "utf8",
    timeout: 60_000,
    env: { PATH: process.env["PATH"], HOME: home, ...environment },
  });
  return { status, stdout, stderr };
}

/** The words and the entry of every command. */
function everyCommand(
  entries: Readonly<Record<string, Entry>>,
  before: readonly string[] = [],
): { words: string[]; load: () => Promise<Run> }[] {
  return Object.entries(entries).flatMap(([word, entry]) => {
    const words = [...before, word];
    return "load" in entry ? [{ words, load: entry.load }] : everyCommand(entry.verbs, words);
  });
}

/** What a command prints in this process, which is faster than one process for each. */
async function printed(run: Run, parameters: readonly string[]): Promise<string> {
  const lines: string[] = [];
  const refused = (): never => assert.fail("nothing else is used");
  const code = await run(parameters, {
    environment: {},
    homeFolder: home,
    isInteractive: false,
    columns: null,
    version: "",
    system: "",
    write: refused,
    tell: refused,
    endOnInterrupt: refused,
    print: (text) => void lines.push(text),
    paint: (_paint, text) => text,
  });
  assert.equal(code, 0);
  return lines.join("\n");
}

test("the help names every command and goes to standard output", () => {
  const { status, stdout } = slipway("--help");
  assert.equal(status, 0);
  const shown = Object.entries(commands).flatMap(([word, { isAlias }]) =>
    isAlias === true ? [] : [word],
  );
  for (const word of [...shown, "--help", "--version"]) assert.ok(stdout.includes(word), word);
});

test("every command has a help that names it, has examples that it understands and --json, and fits 100 columns", async () => {
  // The platform's own help lists its settings.
  for (const { words, load } of everyCommand(commands).filter(
    ({ words: [word] }) => word !== "start",
  )) {
    const run = await load();
    const help = await printed(run, ["--help"]);
    const name = /^Usage: slipway ([a-z -]+[a-z])/.exec(help)?.[1] ?? "";
    assert.ok(name === words.join(" ") || words[0] === "containers", `${words.join(" ")}: ${help}`);
    assert.match(help, /^  --json  /m, name);
    for (const line of help.split("\n")) assert.ok(line.length <= 100, `${name}: ${line}`);
    const examples = [...help.matchAll(/^  slipway (.*)$/gm)].map(([, example = ""]) => example);
    assert.ok(help.includes("\nExamples:\n") && examples.length > 0, `${name} has no example`);
    for (const example of examples) {
      const short =
        words.at(-1) === "list" || words.at(-1) === "show" ? words.slice(0, -1).join(" ") : name;
      const own = example.startsWith(name) ? name : short;
      assert.ok(example.startsWith(own), `${name}: ${example}`);
      const given = example
        .slice(own.length)
        .replace(/ > .*$/, "")
        .split(" ")
        .filter(Boolean);
      // First: what follows "--" is no option.
      assert.equal(await printed(run, ["--help", ...given]), help, example);
    }
  }
});

test("only the command that runs the platform loads the platform; the others need single files of it", async () => {
  const folder = fileURLToPath(new URL(".", import.meta.url));
  const allowed = [
    "lib/closest-name.ts",
    "lib/dockerfile-names.ts",
    "lib/listeners-at.ts",
    "lib/listening-rows.ts",
    "lib/shell-quoted.ts",
    "lib/tool-variables.ts",
    "apps/toml-check.ts",
    "deploy/requirements.ts",
    "deploy/app-files.ts",
    "deploy/python-packages.ts",
    "drivers/builder.ts",
    "drivers/docker/docker-client.ts",
    "drivers/project-command.ts",
    "lib/decoded-text.ts",
    "lib/fault.ts",
    "drivers/process/entrypoint-port.ts",
  ];
  const files = readdirSync(folder).filter(
    (file) => file.endsWith(".ts") && !file.endsWith(".test.ts"),
  );
  for (const file of files.filter((one) => one !== "start.ts")) {
    const text = readFileSync(join(folder, file), "utf8");
    for (const [, path = ""] of text.matchAll(/"@slipway\/server\/src\/([^"]+)"/g)) {
      assert.ok(allowed.includes(path), `${file} imports ${path}`);
    }
  }
});

test("help before a command is its help", () => {
  assert.deepEqual(slipway("help", "apps", "scale"), slipway("apps", "scale", "--help"));
});

test("every first word has a topic, and the lists of commands fit 100 columns", () => {
  for (const [word, entry] of Object.entries(commands)) {
    assert.ok(entry.topic !== undefined || entry.isAlias === true, word);
  }
  for (const words of [[], ["apps"], ["webhooks", "secrets"]]) {
    const { status, stdout, stderr } = slipway(...words, "--help");
    assert.deepEqual([status, stderr], [0, ""]);
    assert.ok(stdout.startsWith(`Usage: slipway ${[...words, "<command>"].join(" ")}\n`), stdout);
    for (const line of stdout.split("\n")) assert.ok(line.length <= 100, line);
  }
});

test("the version is the one of the package", () => {
  const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  assert.deepEqual(slipway("--version"), {
    status: 0,
    stdout: `${manifest.version}\n`,
    stderr: "",
  });
});

test("without a command the help goes to standard error and the code is 2", () => {
  for (const words of [[], ["webhooks"]]) {
    const { status, stdout, stderr } = slipway(...words);
    assert.deepEqual([status, stdout], [2, ""]);
    assert.match(stderr, /^Usage: slipway/);
  }
});

test("an unknown command is refused with the one that was meant", () => {
  assert.deepEqual(slipway("strat"), {
    status: 2,
    stdout: "",
    stderr: '"strat" is not a command; did you mean start? See slipway --help.\n',
  });
  assert.deepEqual(slipway("service-accounts", "rotat"), {
    status: 2,
    stdout: "",
    stderr:
      '"service-accounts rotat" is not a command; did you mean rotate? See slipway service-accounts --help.\n',
  });
  assert.match(
    slipway("volumes", "rm", "x").stderr,
    /^"volumes rm" is not a command; did you mean remove\?/,
  );
});

test("an app where a verb belongs is answered with the verb that was left out", () => {
  const cases = {
    "builds hello": "builds list hello",
    "apps hello": "apps show hello",
    "git hook hello": "git hook show hello",
  };
  for (const [typed, meant] of Object.entries(cases)) {
    const { status, stderr } = slipway(...typed.split(" "));
    assert.equal(status, 2);
    assert.ok(
      stderr.startsWith(`"${typed}" is not a command; did you mean slipway ${meant}? See slipway `),
      stderr,
    );
  }
  assert.match(
    slipway("keys", "hello").stderr,
    /^"keys hello" is not a command\. See slipway keys --help/,
  );
});

test("what a command does not take is refused, with what it takes instead", () => {
  const misuses: [string[], string][] = [
    [["invite"], "email is missing: the person's email address. See slipway invite --help.\n"],
    [["invite", "a@b", "c"], '"c" is an unexpected argument. See slipway invite --help.\n'],
    [
      ["invite", "a@b", "--rol", "x"],
      "--rol is not a valid option; did you mean --role? See slipway invite --help.\n",
    ],
    [["members", "--colour"], "--colour is not a valid option. See slipway members list --help.\n"],
    [
      ["whoami", "--url", "ftp://x"],
      "--url must be a URL with http or https, without user, query or fragment.\n",
    ],
    [
      ["whoami", "--url", "here"],
      '--url is "here", but must be a URL such as https://slipway.example.org.\n',
    ],
  ];
  for (const [words, stderr] of misuses)
    assert.deepEqual(slipway(...words), { status: 2, stdout: "", stderr });
});

test("who is not signed in is told how to, also where nobody can", () => {
  const { status, stderr } = slipway("projects");
  assert.equal(status, 3);
  assert.match(
    stderr,
    /^You are not signed in\. Sign in: slipway login .*\nIn scripts and CI, set SLIPWAY_TOKEN /,
  );
  const login = slipway("login");
  assert.deepEqual([login.status, login.stdout], [1, ""]);
  assert.match(login.stderr, /requires a terminal.*\n.*SLIPWAY_TOKEN/);
});

test("a platform that does not answer is named, with the reason", () => {
  const given = { SLIPWAY_TOKEN: "a.b.c", SLIPWAY_URL: "http://127.0.0.1:2" };
  const { status, stderr } = slipwayWith(given, "projects");
  assert.equal(status, 1);
  assert.match(
    stderr,
    /^http:\/\/127\.0\.0\.1:2 cannot be reached \(ECONNREFUSED\)\. Is the platform running/,
  );
});

test("a password in a URL is not repeated", () => {
  const { stderr } = slipwayWith({ SLIPWAY_URL: "https://user:hush@example.org" }, "projects");
  assert.match(stderr, /^SLIPWAY_URL must be a URL/);
  assert.ok(!stderr.includes("hush"));
});

test("start has a help of its own, and shows the settings when it is asked for them", () => {
  const { status, stdout } = slipway("start", "--help");
  assert.equal(status, 0);
  assert.match(
    stdout,
    /^Usage: slipway start \[options\]\n[^]*--settings +List the environment variables\.\n/,
  );
  const settings = slipway("start", "--settings");
  assert.equal(settings.status, 0);
  assert.match(settings.stdout, /SLIPWAY_PORT/);
});
