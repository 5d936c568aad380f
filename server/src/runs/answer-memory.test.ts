// How many long answers come in at once, and that those which wait come in the end.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ProjectId } from "#lib/ids.ts";
import { AnswerMemory, type AnswerReservation } from "./answer-memory.ts";

const mebibyte = 1_048_576;
const pieceBytes = 65_536;

/**
 * Lets all of them grow to their length, as far as they may; those that are there are put into
 * `complete`.
 */
async function collect(
  reservations: readonly AnswerReservation[],
  bytes: number,
  complete: Set<AnswerReservation>,
): Promise<void> {
  for (const reservation of reservations) {
    void (async () => {
      for (let length = pieceBytes; length <= bytes; length += pieceBytes)
        await reservation.grow(length);
      complete.add(reservation);
    })();
  }
  await new Promise(setImmediate);
}

/** Each project has an owner of its own. */
function openMemory(
  ownerKeyOf = (projectId: ProjectId): Promise<string> => Promise.resolve(projectId),
): AnswerMemory {
  return new AnswerMemory({ answerBytesMax: 16 * mebibyte, ownerKeyOf });
}

test("of long answers only so many are in memory, and each that is written down lets another one come", async () => {
  const answers = openMemory();
  const reservations = Array.from({ length: 100 }, () => answers.of("p-00000001" as ProjectId));
  const complete = new Set<AnswerReservation>();
  await collect(reservations, 16 * mebibyte, complete);
  assert.equal(complete.size, 8, "half of 256 MiB is left to other projects");
  const other = answers.of("p-00000002" as ProjectId);
  await collect([other], 16 * mebibyte, complete);
  assert.ok(complete.has(other));
  for (const reservation of complete) {
    reservation.leave();
    await new Promise(setImmediate);
  }
  assert.equal(complete.size, 101);
});

test("short answers wait for nobody, and one that is longer than what is kept holds no place", async () => {
  const answers = openMemory();
  const complete = new Set<AnswerReservation>();
  const long = Array.from({ length: 50 }, () => answers.of("p-00000001" as ProjectId));
  await collect(long, 17 * mebibyte, complete);
  assert.equal(complete.size, 50);
  await collect(long.slice(0, 1), pieceBytes, complete);
  const short = answers.of("p-00000001" as ProjectId);
  assert.equal(short.grow(pieceBytes), null);
});

test("whoever is gone when its turn comes gives it on", async () => {
  const answers = openMemory();
  const complete = new Set<AnswerReservation>();
  const reservations = Array.from({ length: 40 }, () => answers.of("p-00000001" as ProjectId));
  await collect(reservations, 16 * mebibyte, complete);
  const [first, ...rest] = complete;
  for (const reservation of reservations) if (!complete.has(reservation)) reservation.leave();
  for (const reservation of rest) reservation.leave();
  first?.leave();
  const again = Array.from({ length: 8 }, () => answers.of("p-00000001" as ProjectId));
  const completeAgain = new Set<AnswerReservation>();
  await collect(again, 16 * mebibyte, completeAgain);
  assert.equal(completeAgain.size, 8);
});

test("projects of one owner have the share of one, and count to themselves while nobody knows it", async () => {
  const projects = Array.from({ length: 20 }, (_, index) => `p-0000000${index}` as ProjectId);
  const shared = openMemory((id) => Promise.resolve(id === "p-other" ? id : "somebody"));
  const complete = new Set<AnswerReservation>();
  await collect(
    projects.map((id) => shared.of(id)),
    16 * mebibyte,
    complete,
  );
  assert.equal(complete.size, 8, "half of 256 MiB is left to other owners");
  const other = shared.of("p-other" as ProjectId);
  await collect([other], 16 * mebibyte, complete);
  assert.ok(complete.has(other));
  const unknown = openMemory(() => Promise.reject(new Error("the database is away"))).of(
    "p-1" as ProjectId,
  );
  await collect([unknown], 16 * mebibyte, complete);
  assert.ok(complete.has(unknown));
});
