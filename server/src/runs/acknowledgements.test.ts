// How acknowledgements are gathered, tried again and dropped.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Address } from "#drivers/driver.ts";
import { newRunId, type RunId } from "#lib/ids.ts";
import { silentLog } from "#lib/log.ts";
import { VirtualClock } from "#test/support/virtual-clock.ts";
import { Acknowledgements, batchMax, gatherMs } from "./acknowledgements.ts";

const here: Address = { host: "127.0.0.1", port: 1 };
const there: Address = { host: "127.0.0.1", port: 2 };

type Sent = { readonly port: number; readonly runIds: readonly RunId[] };

function make(send: (sent: Sent) => Promise<void> = () => Promise.resolve()) {
  const clock = new VirtualClock();
  const sent: Sent[] = [];
  const acknowledgements = new Acknowledgements({
    send: ({ port }, runIds) => {
      sent.push({ port, runIds });
      return send({ port, runIds });
    },
    ...{ clock, log: silentLog },
  });
  const add = (address: Address, count: number): readonly RunId[] => {
    const runIds = Array.from({ length: count }, () => newRunId());
    for (const runId of runIds) acknowledgements.add(address, runId);
    return runIds;
  };
  return { acknowledgements, clock, sent, add };
}

void test("What comes within the gathering time goes out together, one request per replica", async () => {
  const { clock, sent, add } = make();
  const first = add(here, 2);
  await clock.advance(gatherMs - 1);
  const second = add(here, 1);
  const others = add(there, 1);
  assert.deepEqual(sent, []);
  await clock.advance(1);
  assert.deepEqual(sent, [{ port: 1, runIds: [...first, ...second] }]);
  await clock.advance(gatherMs);
  assert.deepEqual(sent.slice(1), [{ port: 2, runIds: others }]);
});

void test("A full batch does not wait, and there is one request at a time per replica", async () => {
  let finish: () => void = () => undefined;
  const { clock, sent, add } = make(() => new Promise((resolve) => (finish = resolve)));
  add(here, 2 * batchMax + 1);
  assert.deepEqual(
    sent.map(({ runIds }) => runIds.length),
    [batchMax],
  );
  finish();
  await clock.advance(0);
  finish();
  await clock.advance(gatherMs - 1);
  assert.equal(sent.length, 2);
  await clock.advance(1);
  assert.deepEqual(
    sent.map(({ runIds }) => runIds.length),
    [batchMax, batchMax, 1],
  );
});

void test("A replica that cannot be told is told again, and given up on after three failures in a row", async () => {
  const answers = ["fails", "works", "fails", "fails", "fails", "works"];
  const { clock, sent, add } = make(() =>
    answers.shift() === "works" ? Promise.resolve() : Promise.reject(new Error("it is away")),
  );
  const [runId] = add(here, 1);
  await clock.advance(10_000);
  assert.deepEqual(sent, [
    { port: 1, runIds: [runId] },
    { port: 1, runIds: [runId] },
  ]);
  add(here, 3);
  await clock.advance(100_000);
  assert.equal(sent.length, 5);
  const [later] = add(here, 1);
  await clock.advance(gatherMs);
  assert.deepEqual(sent[5], { port: 1, runIds: [later] });
});

void test("What waits for a replica that is out of reach is bounded", async () => {
  const { acknowledgements, clock, sent, add } = make(() =>
    sent.length === 1 ? Promise.reject(new Error("it is away")) : Promise.resolve(),
  );
  add(here, 1);
  await clock.advance(gatherMs);
  add(here, 20_000);
  assert.equal(sent.length, 1);
  await acknowledgements.close();
  const told = sent.slice(1).reduce((sum, { runIds }) => sum + runIds.length, 0);
  assert.equal(told, 5_000);
});

void test("The end tells what is left, and nothing is taken after it", async () => {
  const { acknowledgements, clock, sent, add } = make();
  const runIds = add(here, 3);
  await acknowledgements.close();
  assert.deepEqual(sent, [{ port: 1, runIds }]);
  add(here, 1);
  await clock.advance(10_000);
  assert.equal(sent.length, 1);
});
