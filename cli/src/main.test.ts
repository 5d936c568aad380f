// The command line as users run it: its output and its exit codes.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
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

/** The words of every command. */
function everyCommand(entries: Readonly<Record<string, Entry>>, before: readonly string[] = []): string[][] {
  return Object.entries(entries).flatMap(([word, entry]) => {
    const words = [...before, word];
    return "load" in entry ? [words] : everyCommand(entry.verbs, words);
  });
}

test("the help names every command and goes to standard output", () => {
  const { status, stdout } = slipway("--help");
  assert.equal(status, 0);
  for (const word of [...Object.keys(commands), "--help", "--version"]) assert.ok(stdout.includes(word), word);
});

test("every command has a help, which names it and goes to standard output", () => {
  for (const words of everyCommand(commands)) {
    const { status, stdout, stderr } = slipway(...words, "--help");
    assert.deepEqual([status, stderr], [0, ""], words.join(" "));
    assert.ok(stdout.startsWith(words[0] === "start" ? "" : `Usage: slipway ${words.join(" ")}`), stdout);
  }
});

test("the version is the one of the package", () => {
  const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  assert.deepEqual(slipway("--version"), { status: 0, stdout: `${manifest.version}\n`, stderr: "" });
});

test("without a command the help goes to standard error and the code is 2", () => {
  for (const words of [[], ["service-accounts"]]) {
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
    stderr: '"service-accounts rotat" is not a command; did you mean rotate? See slipway service-accounts --help.\n',
  });
});

test("what a command does not take is refused, with what it takes instead", () => {
  const misuses: [string[], string][] = [
    [["invite"], "email is missing: the person's email address. See slipway invite --help.\n"],
    [["invite", "a@b", "c"], '"c" is an unexpected argument. See slipway invite --help.\n'],
    [["invite", "a@b", "--rol", "x"], "--rol is not a valid option; did you mean --role? See slipway invite --help.\n"],
    [["members", "--colour"], "--colour is not a valid option. See slipway members list --help.\n"],
    [["whoami", "--url", "ftp://x"], "--url must be a URL with http or https, without user, query or fragment.\n"],
    [["whoami", "--url", "here"], '--url is "here", but must be a URL such as https://slipway.example.org.\n'],
  ];
  for (const [words, stderr] of misuses) assert.deepEqual(slipway(...words), { status: 2, stdout: "", stderr });
});

test("who is not signed in is told how to, also where nobody can", () => {
  const { status, stderr } = slipway("projects");
  assert.equal(status, 1);
  assert.match(stderr, /^You are not signed in\. Sign in: slipway login .*\nIn scripts and CI, set SLIPWAY_TOKEN /);
  const login = slipway("login");
  assert.deepEqual([login.status, login.stdout], [1, ""]);
  assert.match(login.stderr, /requires a terminal.*\n.*SLIPWAY_TOKEN/);
});

test("a platform that does not answer is named, with the reason", () => {
  const given = { SLIPWAY_TOKEN: "a.b.c", SLIPWAY_URL: "http://127.0.0.1:2" };
  const { status, stderr } = slipwayWith(given, "projects");
  assert.equal(status, 1);
  assert.match(stderr, /^http:\/\/127\.0\.0\.1:2 cannot be reached \(ECONNREFUSED\)\. Is the platform running/);
});

test("a password in a URL is not repeated", () => {
  const { stderr } = slipwayWith({ SLIPWAY_URL: "https://user:hush@example.org" }, "projects");
  assert.match(stderr, /^SLIPWAY_URL must be a URL/);
  assert.ok(!stderr.includes("hush"));
});

test("start shows the settings when it is asked for help", () => {
  const { status, stdout } = slipway("start", "--help");
  assert.equal(status, 0);
  assert.match(stdout, /SLIPWAY_PORT/);
});
