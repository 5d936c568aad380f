// How long a container has run, by the kernel's times of its first process.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { sinceBootMs } from "#lib/clock.ts";
import { containerRanMs } from "./first-process.ts";

const skip = process.platform === "linux" ? false : "only Linux has /proc";

test("a container has run as long as its first process, and not before it", { skip }, () => {
  // This process stands for the container's first one, and its control group for the container's.
  const group = readFileSync("/proc/self/cgroup", "utf8").trim();
  const before = containerRanMs(process.pid, group);
  const after = containerRanMs(process.pid, group);
  assert.ok(before !== undefined && after !== undefined && before <= after);
  assert.ok(after < sinceBootMs());
});

test(
  "the run time is unknown when the id belongs to a process of no such container",
  { skip },
  () => {
    assert.equal(containerRanMs(process.pid, "0f".repeat(32)), undefined);
    assert.equal(containerRanMs(2 ** 30, "0f".repeat(32)), undefined);
  },
);
