// The small pure parts of lib: assertions, backoff, faults, ids, nearest names.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import fc from "fast-check";
import { assert as hold, must, never } from "./assert.ts";
import { backoffMs } from "./backoff.ts";
import { Fault, faultTable } from "./fault.ts";
import {
  appIdOf,
  appNameForm,
  newBuildId,
  newDeliveryId,
  newProjectId,
  newReleaseId,
  newReplicaId,
  newRunId,
  projectIdForm,
} from "./ids.ts";
import { closestName } from "./closest-name.ts";

describe("assertions", () => {
  test("a broken one throws what was meant to hold", () => {
    assert.throws(() => hold(0, "there is one"), {
      name: "AssertionFailed",
      message: "there is one",
    });
    hold(1, "there is one");
  });
  test("must gives the value, also a falsy one, and refuses null and undefined", () => {
    assert.deepEqual([must(0, "x"), must("", "x"), must(false, "x")], [0, "", false]);
    for (const missing of [null, undefined])
      assert.throws(() => must(missing, "a value"), { name: "AssertionFailed" });
  });
  test("a member of a union that a switch forgot is named", () => {
    assert.throws(() => never("odd" as never), /unexpected value "odd"/);
  });
});

describe("backoff", () => {
  const policy = { firstMs: 100, factor: 2, msMax: 1000, jitter: 0.2 };

  test("waits double until the bound when the dice show the middle", () => {
    const waits = [1, 2, 3, 4, 5, 50].map((attempt) => backoffMs(policy, attempt, 0.5));
    assert.deepEqual(waits, [100, 200, 400, 800, 1000, 1000]);
  });
  test("the jitter stays within its share on both sides", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1000 }),
        fc.double({ min: 0, max: 0.999, noNaN: true }),
        (attempt, random) => {
          const plain = backoffMs(policy, attempt, 0.5);
          const jittered = backoffMs(policy, attempt, random);
          assert.ok(
            jittered >= plain * 0.8 - 1 && jittered <= plain * 1.2 + 1,
            `${jittered} for ${plain}`,
          );
        },
      ),
    );
    assert.notEqual(backoffMs(policy, 1, 0), backoffMs(policy, 1, 0.9));
  });
});

describe("faults", () => {
  test("every code has a status of an error and says in a sentence what it means", () => {
    for (const [code, { status, meaning }] of Object.entries(faultTable)) {
      assert.ok(status >= 400 && status <= 599, code);
      assert.match(meaning, /^[A-Z].*\.$/, code);
    }
  });
  test("a fault carries its code, its cause and when to come back", () => {
    const cause = new Error("inside");
    const fault = new Fault("rate_limited", "Too many.", { cause, retryAfterSeconds: 7 });
    assert.deepEqual(
      [fault.code, fault.message, fault.retryAfterSeconds],
      ["rate_limited", "Too many.", 7],
    );
    assert.equal(fault.cause, cause);
    assert.equal("cause" in new Fault("internal", "x"), false);
  });
});

describe("ids", () => {
  test("a new project's id has the form of one, and an app's id begins with it", () => {
    const projectId = newProjectId();
    assert.match(projectId, projectIdForm);
    assert.equal(appIdOf(projectId, "hello"), `${projectId}-hello`);
  });
  test("an older project's id is one too, and what is close is none", () => {
    assert.match("dev-p-0a1b2c3d", projectIdForm);
    for (const bad of ["p-0A1B2C3D", "p-0a1b2c3", "p-0a1b2c3d4", "x-p-0a1b2c3d", "p-0a1b2c3d\n"])
      assert.doesNotMatch(bad, projectIdForm);
  });
  test("names of apps are 3 to 30 lower case letters, digits and hyphens", () => {
    for (const good of ["abc", "a-1", "a".repeat(30)]) assert.match(good, appNameForm);
    for (const bad of ["ab", "a".repeat(31), "Abc", "a_b", "a.b", "äbc", "abc\n"])
      assert.doesNotMatch(bad, appNameForm);
  });
  test("a replica's id begins with its app's name, and ids do not repeat", () => {
    assert.match(newReplicaId("hello"), /^hello-[0-9a-f]{10}$/);
    assert.equal(new Set(Array.from({ length: 500 }, () => newRunId())).size, 500);
    for (const make of [newBuildId, newReleaseId, newRunId, newDeliveryId]) {
      const one = make();
      const time = Date.now();
      assert.match(
        one,
        /^[0-9a-f]{8}-[0-9a-f]{4}-7/,
        "an id of version 7, which begins with the time",
      );
      assert.ok(
        Math.abs(Number.parseInt(one.replaceAll("-", "").slice(0, 12), 16) - time) < 60_000,
      );
    }
  });
});

describe("nearest names", () => {
  const known = ["SLIPWAY_PORT", "SLIPWAY_HOST", "SLIPWAY_DATA_DIR"];

  test("a slip of the finger finds the name that was meant", () => {
    for (const [given, meant] of [
      ["SLIPWAY_PROT", "SLIPWAY_PORT"],
      ["slipway_host", "SLIPWAY_HOST"],
      ["SLIPWAY_DATADIR", "SLIPWAY_DATA_DIR"],
    ] as const) {
      assert.equal(closestName(given, known), meant);
    }
  });
  test("two letters that changed places are one slip, and short names allow no more", () => {
    assert.equal(closestName("lsit", ["ls", "list"]), "list");
    for (const [given, known] of [
      ["rm", "ls"],
      ["nope", "inode"],
      ["cors", "port"],
      ["bs", "big"],
    ] as const) {
      assert.equal(closestName(given, [known]), undefined);
    }
  });
  test("what is like nothing known finds nothing", () => {
    assert.equal(closestName("completely-different", known), undefined);
    assert.equal(closestName("x", []), undefined);
  });
  test("a known name is nearest to itself, and endless input ends", () => {
    fc.assert(
      fc.property(fc.constantFrom(...known), (name) =>
        assert.equal(closestName(name, known), name),
      ),
    );
    assert.equal(closestName("x".repeat(1_000_000), known), undefined);
  });
});
