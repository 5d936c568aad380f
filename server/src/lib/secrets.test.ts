// Secrets: what shows one and what does not, sealing at rest, rotation of keys, redaction in the
// log.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { inspect } from "node:util";
import fc from "fast-check";
import { anyText } from "#test/support/any-text.ts";
import { createLog } from "./log.ts";
import { Sealer } from "./seal.ts";
import { Secret } from "./secret.ts";

const first = "11".repeat(32);
const second = "22".repeat(32);

describe("a secret", () => {
  test("shows itself nowhere but where it is asked for", () => {
    const secret = new Secret("hidden");
    const holder = { secret, list: [secret] };
    const shown = [
      `${secret}`,
      String(secret),
      JSON.stringify(holder),
      inspect(holder, { depth: 9, showHidden: true }),
      Object.values(secret).join(),
    ];
    for (const text of shown) assert.ok(!text.includes("hidden"), text);
    assert.equal(secret.reveal(), "hidden");
  });
});

describe("sealing", () => {
  test("any text comes back as it was", () => {
    const sealer = new Sealer([first]);
    fc.assert(
      fc.property(anyText(), (plain) => {
        assert.equal(sealer.open(sealer.seal(plain, "secret:a"), "secret:a").reveal(), plain);
      }),
    );
  });
  test("the same text is never sealed the same way twice", () => {
    const sealer = new Sealer([first]);
    assert.notEqual(sealer.seal("a", "x"), sealer.seal("a", "x"));
  });
  test("what was moved to another place does not open", () => {
    const sealer = new Sealer([first]);
    assert.throws(() => sealer.open(sealer.seal("a", "secret:app-1:A"), "secret:app-2:A"));
  });
  test("what was altered in any character does not open", () => {
    const sealer = new Sealer([first]);
    const sealed = sealer.seal("a secret", "x");
    for (let at = 0; at < sealed.length; at++) {
      const altered = `${sealed.slice(0, at)}${sealed[at] === "A" ? "B" : "A"}${sealed.slice(at + 1)}`;
      // The last character of a base64 group may differ only in bits that carry nothing.
      let opened: string | undefined;
      try {
        opened = sealer.open(altered, "x").reveal();
      } catch {
        continue;
      }
      assert.equal(opened, "a secret");
      assert.ok(at === sealed.length - 1 || sealed[at + 1] === ".", `altered at ${at}`);
    }
  });
  test("a rotated key still opens", () => {
    const sealed = new Sealer([first]).seal("a", "x");
    const rotated = new Sealer([second, first]);
    assert.equal(rotated.open(sealed, "x").reveal(), "a");
  });
  test("a key that is gone is named by its id, not by its value", () => {
    const sealed = new Sealer([first]).seal("a", "x");
    assert.throws(
      () => new Sealer([second]).open(sealed, "x"),
      (error: Error) =>
        /^secret key [0-9a-f]{8} is not among/.test(error.message) &&
        !error.message.includes(first),
    );
  });
  test("a key of another form is refused", () => {
    for (const keys of [[], ["abc"], [first.slice(1)], [first, "zz".repeat(32)]])
      assert.throws(() => new Sealer(keys));
  });
});

describe("the platform's log", () => {
  test("shows of an error what it says and where, with its causes, and nothing that a library hangs on it", () => {
    const lines: string[] = [];
    const log = createLog({
      level: "info",
      pretty: false,
      to: { write: (line: string) => void lines.push(line) },
    });
    const hung = {
      code: "23505",
      detail: "Key (value)=(hidden1)",
      client: { connection: { password: "hidden2" } },
    };
    const cause = new AggregateError([new Error("refused")], "nobody answers");
    log.error({ err: Object.assign(new Error("it is there already", { cause }), hung) }, "no");
    log.error({ err: { reason: "hidden3" } }, "no error at all");
    assert.doesNotMatch(lines.join(""), /hidden/);
    const { err } = JSON.parse(lines[0] ?? "");
    assert.deepEqual([err.type, err.message, err.code], ["Error", "it is there already", "23505"]);
    assert.match(err.stack, /secrets\.test\.ts/);
    assert.deepEqual(
      [err.cause.message, err.cause.errors[0].message],
      ["nobody answers", "refused"],
    );
  });

  test("does not hold tokens, passwords and authorization headers, wherever they turn up", () => {
    const lines: string[] = [];
    const log = createLog({
      level: "info",
      pretty: false,
      to: { write: (line: string) => void lines.push(line) },
    });
    log.info(
      {
        token: "hidden1",
        request: { authorization: "hidden2" },
        headers: { authorization: "hidden3" },
        user: { password: "hidden4" },
      },
      "hello",
    );
    log.info({ secret: new Secret("hidden5") }, `and ${new Secret("hidden6")}`);
    assert.equal(lines.length, 2);
    assert.ok(!lines.join("").includes("hidden"), lines.join(""));
    assert.ok(lines[0]?.includes('"msg":"hello"'));
  });
});
