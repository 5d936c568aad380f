// What every driver keeps that runs commands in replicas: a test file calls `execConformance(name,
// makeFixture)`.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import type { Readable } from "node:stream";
import { describe, it } from "node:test";
import type { Driver } from "#drivers/driver.ts";
import { ExecRefused, type ExecCommand, type ExecEnd, type RunningExec } from "#drivers/exec.ts";
import type { ReplicaId } from "#lib/ids.ts";
import type { ConformanceFixture } from "./driver-conformance.ts";
import { DriverSink } from "./driver-sink.ts";
import { until } from "./until.ts";

/** Whether a process of this machine has a text in its command line. */
type Lives = (text: string) => boolean;

export type ExecGround = { readonly fixture: ConformanceFixture; readonly lives: Lives };

type Outcome = ExecEnd & { readonly stdout: Buffer; readonly stderr: string };

type Stage = ExecGround & {
  readonly driver: Driver;
  readonly replicaId: ReplicaId;
  /** Starts another replica; resolves when it is ready. */
  begin(): Promise<ReplicaId>;
  start(command: readonly string[], terminal?: ExecCommand["terminal"]): Promise<RunningExec>;
  run(command: readonly string[], input?: Buffer | string): Promise<Outcome>;
};

/** Runs the suite. */
export function execConformance(name: string, makeGround: () => Promise<ExecGround>): void {
  const promise = (what: string, run: (stage: Stage) => Promise<void>): void => {
    it(what, { timeout: 120_000 }, async () => {
      const ground = await makeGround();
      const driver = ground.fixture.driver();
      try {
        const sink = new DriverSink();
        await driver.open(sink);
        const begin = async (): Promise<ReplicaId> => {
          const spec = ground.fixture.spec({ kind: "serves" });
          await driver.start(spec, new AbortController().signal);
          const { address } = await sink.told("started", spec.replicaId);
          await until("it is ready", () => ground.fixture.isReady(address), { deadlineMs: 30_000 });
          return spec.replicaId;
        };
        await run(stageOf(ground, { driver, replicaId: await begin(), begin }));
        assert.deepEqual(await driver.list().then((all) => all.map(({ state }) => state)), [
          "running",
        ]);
      } finally {
        for (const { replicaId } of await driver.list()) {
          await driver.stop(replicaId, { graceMs: 0 });
          await driver.forget(replicaId);
        }
        await driver.close();
        await ground.fixture.close();
      }
    });
  };
  describe(`commands in replicas of the ${name} driver`, () => {
    outputPromises(promise);
    terminalPromises(promise);
    endPromises(promise);
  });
}

type Promised = (what: string, run: (stage: Stage) => Promise<void>) => void;

function stageOf(ground: ExecGround, more: Pick<Stage, "driver" | "replicaId" | "begin">): Stage {
  const { driver, replicaId } = more;
  const start: Stage["start"] = (command, terminal = null) =>
    driver.exec(replicaId, { command: command as ExecCommand["command"], terminal });
  return {
    ...ground,
    ...more,
    start,
    async run(command, input = "") {
      const exec = await start(command);
      exec.stdin.end(input);
      return await outcomeOf(exec);
    },
  };
}

async function outcomeOf(exec: RunningExec): Promise<Outcome> {
  const [stdout, stderr, end] = await Promise.all([
    bytesOf(exec.stdout),
    bytesOf(exec.stderr),
    exec.ended,
  ]);
  return { ...end, stdout, stderr: stderr.toString() };
}

async function bytesOf(stream: Readable): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

function outputPromises(promise: Promised): void {
  promise(
    "has its outputs apart, its exit code, and the replica's variables",
    async ({ run, replicaId }) => {
      const script = 'echo "$SLIPWAY_REPLICA_ID"; echo wrong >&2; exit 3';
      const { stdout, stderr, exitCode, message } = await run(["sh", "-c", script]);
      assert.deepEqual(
        [String(stdout), stderr, exitCode, message],
        [`${replicaId}\n`, "wrong\n", 3, null],
      );
    },
  );

  promise("keeps what a command says that ends before somebody listens", async ({ start }) => {
    const exec = await start(["echo", "said"]);
    await until("it has ended", () => exec.stdout.readableLength > 0);
    const { ended } = exec;
    assert.equal(String((await outcomeOf(exec)).stdout), "said\n");
    assert.equal((await ended).exitCode, 0);
  });

  promise("takes words as they are, and reads its input to the end", async ({ run }) => {
    const words = ["a b", "", "$HOME", "'\"\\", "*", "-x", "ü\n"];
    const { stdout } = await run(["printf", "<%s>", ...words]);
    assert.equal(String(stdout), words.map((word) => `<${word}>`).join(""));
    const bytes = Buffer.from(
      Array.from({ length: 3_000_000 }, (_, index) => (index * 7 + (index >> 8)) & 0xff),
    );
    const echoed = await run(["cat"], bytes);
    const hash = (given: Buffer): string => createHash("sha256").update(given).digest("hex");
    assert.deepEqual([echoed.stdout.length, hash(echoed.stdout)], [bytes.length, hash(bytes)]);
  });

  promise("says what cannot be run, and by which signal it ended", async ({ run }) => {
    const missing = await run(["no-such-program", "secret"]);
    assert.equal(missing.exitCode, 127);
    assert.match(
      missing.stderr + String(missing.stdout) + (missing.message ?? ""),
      /no-such-program/,
    );
    const killed = await run(["sh", "-c", "kill -9 $$"]);
    assert.equal(killed.exitCode, 137);
  });

  promise("stands still while nobody reads", async (stage) => {
    const flood = await stage.start(["sh", "-c", "yes 71828182"]);
    const first = (await flood.stdout[Symbol.asyncIterator]().next()) as { value: Buffer };
    assert.match(String(first.value), /^71828182\n/);
    flood.end("enough");
    assert.equal((await flood.ended).message, "enough");
    await until("it is gone", () => !stage.lives("71828182"));
  });

  promise("ends what it has left in the background", async (stage) => {
    const left = await stage.run([
      "sh",
      "-c",
      "sleep 31415926 & (setsid sleep 31415926 &) ; echo begun",
    ]);
    assert.equal(String(left.stdout), "begun\n");
    assert.ok(!stage.lives("31415926"), "nothing is left when it is told to have ended");
  });
}

function terminalPromises(promise: Promised): void {
  promise("gives it a terminal with a size that changes", async ({ start }) => {
    const script = "tty; while :; do stty size; sleep 0.05; done";
    const exec = await start(["sh", "-c", script], { columns: 91, rows: 17 });
    let text = "";
    exec.stdout.on("data", (chunk: Buffer) => (text += chunk.toString()));
    exec.stderr.resume();
    await until("it has its first size", () => text.includes("17 91\r\n"));
    exec.resize({ columns: 120, rows: 40 });
    await until("it has its next size", () => text.includes("40 120\r\n"));
    assert.match(text, /^\/dev\/pts\/\d+\r\n/);
    exec.end("enough");
    await exec.ended;
  });

  promise("sends signals of keys, and ends with the terminal's input", async ({ start }) => {
    const exec = await start(["sh"], { columns: 80, rows: 24 });
    let text = "";
    exec.stdout.on("data", (chunk: Buffer) => (text += chunk.toString()));
    exec.stderr.resume();
    exec.stdin.write("echo be''gun; sleep 1000\r");
    await until("it sleeps", () => text.includes("begun"), { deadlineMs: 30_000 });
    exec.stdin.write("\x03");
    exec.stdin.write("echo af''ter $TERM; exit 9\r");
    assert.equal((await exec.ended).exitCode, 9);
    assert.match(text, /after xterm/);
  });
}

function endPromises(promise: Promised): void {
  promise(
    "leaves no process when it is ended, with a terminal or without",
    async ({ start, lives }) => {
      for (const terminal of [null, { columns: 80, rows: 24 }]) {
        const script =
          "trap '' TERM HUP INT; (setsid sleep 27182818 &) ; echo begun; sleep 27182818";
        const exec = await start(["sh", "-c", script], terminal);
        const chunk = (await exec.stdout[Symbol.asyncIterator]().next()) as { value: Buffer };
        assert.match(String(chunk.value), /^begun/);
        assert.ok(lives("27182818"));
        exec.end("the client has left");
        assert.equal((await exec.ended).message, "the client has left");
        assert.ok(!lives("27182818"));
      }
    },
  );

  promise(
    "refuses what does not run, and ends with its replica",
    async ({ driver, start, begin }) => {
      const command = ["true"] as const;
      const terminal = null;
      await assert.rejects(
        driver.exec("nobody-1" as ReplicaId, { command, terminal }),
        ExecRefused,
      );
      const other = await begin();
      const exec = await driver.exec(other, { command: ["sleep", "1000"], terminal });
      await driver.stop(other, { graceMs: 30_000 });
      assert.equal((await exec.ended).message, "The replica was stopped.");
      await assert.rejects(driver.exec(other, { command, terminal }), ExecRefused);
      await driver.forget(other);
      const last = await start(["sh", "-c", "kill -0 1"]);
      assert.equal((await last.ended).message, null);
    },
  );
}
