// The output of programs: every line once and in order, and never more at a time than the platform
// can bear.
import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { CommandOutput } from "./command-output.ts";
import { runCommand } from "./command.ts";

/** Resolves once all that was written has been taken. */
const taken = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A program's two outputs in the test's hands. */
function stage() {
  const clock = new VirtualClock();
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  const lines: string[] = [];
  const output = new CommandOutput({
    keepsReturns: false,
    sources: [
      ["stdout", stdout],
      ["stderr", stderr],
    ],
    onLine: (name, text) => lines.push(`${name} ${text}`),
    clock,
  });
  return { clock, stdout, stderr, lines, output };
}

test("lines come as they end, whatever pieces they arrive in", async () => {
  const { stdout, stderr, lines, output } = stage();
  stdout.write("one\ntw");
  stdout.write(Buffer.from([0x6f, 0x0d, 0xc3]));
  stderr.write("err\r\n");
  stdout.write(Buffer.from([0xa4]));
  stdout.write(`${"x".repeat(10_000)}\nlast`);
  await taken();
  await output.finish();
  assert.deepEqual(
    lines.map((line) => line.slice(0, 12)),
    ["stdout one", "stderr err", "stdout two", "stdout äxxxx", "stdout last"],
  );
  assert.equal(lines[3]?.length, "stdout ".length + 8192);
});

test("a flood of lines comes turn by turn, its program is held up meanwhile, and no line is lost", async () => {
  const { clock, stdout, lines, output } = stage();
  stdout.write("y\n".repeat(1000));
  await taken();
  assert.equal(lines.length, 200);
  assert.ok(stdout.isPaused());
  await clock.advance(20);
  assert.equal(lines.length, 400);
  const finished = output.finish();
  await clock.advance(60);
  await finished;
  assert.equal(lines.length, 1000);
  assert.ok(!stdout.isPaused());
});

test("megabytes without a line are held up too", async () => {
  const { clock, stdout, lines } = stage();
  stdout.write(Buffer.alloc(600_000, "x"));
  await taken();
  assert.ok(stdout.isPaused());
  await clock.advance(20);
  assert.ok(!stdout.isPaused());
  assert.equal(lines.length, 1);
});

test("after a stop nothing is handed on, and nothing is waited for", async () => {
  const { stdout, lines, output } = stage();
  stdout.write("y\n".repeat(1000));
  await taken();
  output.stop();
  stdout.write("z\n");
  await taken();
  await output.finish();
  assert.equal(lines.length, 200);
});

test("a program that prints without end leaves the process time for other things, and ends when it is told", async () => {
  const stop = new AbortController();
  let lines = 0;
  const running = runCommand({
    command: ["yes"],
    cwd: "/",
    environment: { PATH: process.env["PATH"] ?? "" },
    signal: stop.signal,
    timeoutMs: 60_000,
    onLine: () => {
      if (++lines === 1000) stop.abort(new Error("enough"));
    },
  });
  assert.deepEqual(await running, { kind: "aborted" });
  assert.ok(lines <= 1200, `${lines} lines came`);
});
