// Which writers are ended, and what the states of the disk are.
import assert from "node:assert/strict";
import { test } from "node:test";
import { endings, diskState, type DiskLimits, type Growing } from "./disk-decide.ts";

const mb = 1_000_000;
const limits: DiskLimits = {
  replicaBytes: null,
  storageBytes: null,
  ownStorageBytes: new Map(),
  reserveBytes: 2000 * mb,
  reserveFiles: 10_000,
};
const growing = (kind: Growing["kind"], id: string, before: number, now: number): Growing => ({
  kind,
  id,
  before: { bytes: before * mb, files: 0 },
  now: { bytes: now * mb, files: 0 },
});
const ended = (
  all: readonly Growing[],
  freeMb: number,
  given: Partial<DiskLimits> = {},
): string[] =>
  endings(all, { bytes: freeMb * mb, files: null }, { ...limits, ...given }).map(({ id }) => id);

test("room is enough from the reserve on, and critical below a quarter of it, in bytes and in files", () => {
  const state = (bytes: number, files: number | null): string =>
    diskState({ bytes: bytes * mb, files }, limits);
  assert.deepEqual(
    [
      state(2000, null),
      state(1999, null),
      state(499, null),
      state(9000, 10_000),
      state(9000, 9999),
      state(9000, 2000),
    ],
    ["enough", "short", "critical", "enough", "short", "critical"],
  );
});

test("when room is short, who has grown most is ended, with those that grow at the same pace, and nobody who has not", () => {
  const all = [
    growing("storage", "large", 500_000, 500_010),
    growing("replica", "fast", 0, 900),
    growing("replica", "as-fast", 100, 700),
    growing("build", "slow", 0, 100),
  ];
  assert.deepEqual(ended(all, 2500), []);
  assert.deepEqual(ended(all, 1000), ["fast", "as-fast"]);
  assert.deepEqual(ended(all.slice(0, 1), 100), []);
});

test("a writer over its limit is ended whatever room there is; storage only when it grows", () => {
  const all = [
    growing("storage", "over-before", 800, 800),
    growing("storage", "grows", 800, 802),
    growing("storage", "below", 0, 700),
    growing("replica", "replica", 300, 301),
    growing("build", "build", 5000, 5200),
  ];
  assert.deepEqual(ended(all, 9000, { replicaBytes: 300 * mb, storageBytes: 750 * mb }), [
    "grows",
    "replica",
  ]);
});

test("the storage of a project may have a limit of its own, instead of that of all", () => {
  const all = [growing("storage", "small", 0, 600), growing("storage", "large", 0, 900)];
  const ownStorageBytes = new Map([
    ["small", 500 * mb],
    ["large", 1000 * mb],
  ]);
  assert.deepEqual(ended(all, 9000, { storageBytes: 750 * mb, ownStorageBytes }), ["small"]);
  assert.deepEqual(ended(all, 9000, { ownStorageBytes }), ["small"]);
});

test("when room is short, who cannot be measured in time is ended too, with whoever has grown; not while there is room", () => {
  const slow: Growing = {
    kind: "replica",
    id: "many-files",
    before: { bytes: 0, files: 0 },
    now: null,
  };
  const all = [slow, growing("build", "fast", 0, 900), growing("replica", "calm", 2, 2)];
  assert.deepEqual(ended(all, 2500, { replicaBytes: 950 * mb }), []);
  assert.deepEqual(ended(all, 1000), ["fast", "many-files"]);
  assert.deepEqual(ended([slow], 1000), ["many-files"]);
});
