// Commands in containers of an engine that does what a real one does seldom, or never when a test
// waits for it.
import assert from "node:assert/strict";
import { once } from "node:events";
import { Duplex, Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { ExecRefused } from "#drivers/exec.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { execInContainer } from "./container-exec.ts";
import type { Engine } from "./engine.ts";

/**
 * What the engine answers to the start of the command that a test gives; others, the platform's
 * own, end at once.
 */
type Start = (asked: { readonly abortSignal: AbortSignal }) => Promise<Duplex>;

function engineThat(start: Start): Engine {
  const info = { Running: false, ExitCode: 0 };
  const none = {
    id: "own",
    start: () => Promise.resolve(Readable.from([])),
    inspect: () => Promise.resolve(info),
  };
  const asked = { id: "asked", start, inspect: () => Promise.resolve(info) };
  const create = ({ AttachStdin = false }): Promise<object> =>
    Promise.resolve(AttachStdin ? asked : none);
  const calls = { getContainer: () => ({ exec: create }), getExec: () => asked };
  return { calls, streams: calls } as unknown as Engine;
}

const given = { command: ["echo", "said"], terminal: null } as const;
const container = { containerId: "c", replicaId: "r" as ReplicaId };

function frameOf(stream: 1 | 2, bytes: Buffer): Buffer {
  const head = Buffer.alloc(8);
  head[0] = stream;
  head.writeUInt32BE(bytes.length, 4);
  return Buffer.concat([head, bytes]);
}

/** A connection that stays open until one of its sides ends it. */
function connection(): Duplex {
  return new Duplex({
    read: () => undefined,
    write: (_chunk, _encoding, done) => done(),
    allowHalfOpen: false,
  });
}

test("a command that has ended ends, also when the engine leaves its connection open", async () => {
  const clock = new VirtualClock();
  const socket = connection();
  const scope = { ...container, clock, engine: engineThat(() => Promise.resolve(socket)) };
  const exec = await execInContainer(scope, given);
  const outputs = Promise.all([text(exec.stdout), text(exec.stderr)]);
  await clock.advance(5_000);
  socket.push(frameOf(1, Buffer.from("said\n")));
  await clock.advance(9_000);
  assert.equal(socket.destroyed, false, "what comes late is waited for");
  await clock.advance(3_000);
  assert.equal(socket.destroyed, true);
  assert.deepEqual(await outputs, ["said\n", ""]);
  assert.deepEqual(await exec.ended, { exitCode: 0, message: null });
});

test("an engine that does not start a command is not waited for without end", async () => {
  const clock = new VirtualClock();
  const start: Start = async ({ abortSignal }) => {
    await once(abortSignal, "abort");
    throw new Error("aborted");
  };
  const started = execInContainer({ ...container, clock, engine: engineThat(start) }, given);
  const refused = assert.rejects(started, (error) => {
    assert.ok(error instanceof ExecRefused);
    assert.equal(
      error.message,
      "The container engine did not start the command within 60 s; try again.",
    );
    return true;
  });
  await clock.advance(61_000);
  await refused;
});

test("what is read late is complete, and nothing ends before it", async () => {
  const clock = new VirtualClock();
  const socket = connection();
  const exec = await execInContainer(
    { ...container, clock, engine: engineThat(() => Promise.resolve(socket)) },
    given,
  );
  const line = "x".repeat(9_999) + "\n";
  for (let count = 0; count < 100; count++)
    socket.push(frameOf(count % 10 === 9 ? 2 : 1, Buffer.from(line)));
  socket.push(null);
  await clock.advance(60_000);
  const outputs = await Promise.all([text(exec.stdout), text(exec.stderr)]);
  assert.deepEqual(
    outputs.map(({ length }) => length),
    [900_000, 100_000],
  );
  assert.deepEqual(await exec.ended, { exitCode: 0, message: null });
});
