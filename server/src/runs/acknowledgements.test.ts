// How acknowledgements are gathered, tried again and dropped.
import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import type { Address } from "#drivers/driver.ts";
import { newRunId } from "#lib/ids.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { Acknowledgements } from "./acknowledgements.ts";
import { heldIdOf, type HeldId } from "./held-id.ts";
import { tcpAddress } from "#test/support/replica-address.ts";

/** The most that one request acknowledges, and how long the first of them waits for others. */
const batchMax = 100;
const lingerMs = 200;
const here: Address = { host: "127.0.0.1", port: 1 };
const there: Address = { host: "127.0.0.1", port: 2 };

type Sent = { readonly port: number; readonly heldIds: readonly HeldId[] };

function make(send: (sent: Sent) => Promise<void> = () => Promise.resolve()) {
  const clock = new VirtualClock();
  const sent: Sent[] = [];
  const logged: Record<string, unknown>[] = [];
  const log = pino(
    {},
    { write: (line: string) => logged.push(JSON.parse(line) as Record<string, unknown>) },
  );
  const acknowledgements = new Acknowledgements({
    send: (address, heldIds) => {
      const { port } = tcpAddress(address);
      sent.push({ port, heldIds });
      return send({ port, heldIds });
    },
    clock,
    log,
  });
  const dropped = (): unknown[] =>
    logged.map((line) => line["runs"]).filter((runs) => runs !== undefined);
  const add = (address: Address, count: number): readonly HeldId[] => {
    const heldIds = Array.from({ length: count }, () => heldIdOf(newRunId(), 1));
    for (const heldId of heldIds) acknowledgements.add(address, heldId);
    return heldIds;
  };
  return { acknowledgements, clock, sent, add, dropped };
}

void test("What comes within the gathering time goes out together, one request per replica", async () => {
  const { clock, sent, add } = make();
  const first = add(here, 2);
  await clock.advance(lingerMs - 1);
  const second = add(here, 1);
  const others = add(there, 1);
  assert.deepEqual(sent, []);
  await clock.advance(1);
  assert.deepEqual(sent, [{ port: 1, heldIds: [...first, ...second] }]);
  await clock.advance(lingerMs);
  assert.deepEqual(sent.slice(1), [{ port: 2, heldIds: others }]);
});

void test("A full batch does not wait, and there is one request at a time per replica", async () => {
  let finish: () => void = () => undefined;
  const { clock, sent, add } = make(() => new Promise((resolve) => (finish = resolve)));
  add(here, 2 * batchMax + 1);
  await clock.advance(0);
  assert.deepEqual(
    sent.map(({ heldIds }) => heldIds.length),
    [batchMax],
  );
  finish();
  await clock.advance(0);
  finish();
  await clock.advance(lingerMs - 1);
  assert.equal(sent.length, 2);
  await clock.advance(1);
  assert.deepEqual(
    sent.map(({ heldIds }) => heldIds.length),
    [batchMax, batchMax, 1],
  );
});

void test("A replica that cannot be told is told again, and given up on after some seconds", async () => {
  let isAway = true;
  const { clock, sent, add, dropped } = make(() =>
    isAway ? Promise.reject(new Error("away")) : Promise.resolve(),
  );
  const [heldId] = add(here, 1);
  await clock.advance(1_000);
  isAway = false;
  await clock.advance(10_000);
  assert.ok(sent.length > 1);
  assert.deepEqual(
    sent.map(({ heldIds }) => heldIds),
    sent.map(() => [heldId]),
  );
  isAway = true;
  add(here, 3);
  await clock.advance(100_000);
  assert.deepEqual(dropped(), [3]);
  isAway = false;
  const tries = sent.length;
  const [later] = add(here, 1);
  await clock.advance(lingerMs);
  assert.deepEqual(sent.slice(tries), [{ port: 1, heldIds: [later] }]);
});

void test("What waits for a replica that is out of reach is bounded", async () => {
  const { acknowledgements, clock, sent, add, dropped } = make(() =>
    sent.length === 1 ? Promise.reject(new Error("it is away")) : Promise.resolve(),
  );
  add(here, 1);
  await clock.advance(lingerMs);
  add(here, 20_000);
  assert.equal(sent.length, 1);
  await acknowledgements.close();
  const acknowledged = sent.slice(1).reduce((sum, { heldIds }) => sum + heldIds.length, 0);
  assert.equal(acknowledged, 5_001);
  assert.deepEqual(dropped(), [15_000]);
});

void test("At the end a replica that is out of reach is tried once", async () => {
  const { acknowledgements, sent, add, dropped } = make(() =>
    Promise.reject(new Error("it is away")),
  );
  add(here, 2 * batchMax - 1);
  await acknowledgements.close();
  assert.deepEqual([sent.length, dropped()], [1, [2 * batchMax - 1]]);
});

void test("The end tells what is left, and nothing is taken after it", async () => {
  const { acknowledgements, clock, sent, add } = make();
  const heldIds = add(here, 3);
  await acknowledgements.close();
  assert.deepEqual(sent, [{ port: 1, heldIds }]);
  add(here, 1);
  await clock.advance(10_000);
  assert.equal(sent.length, 1);
});
