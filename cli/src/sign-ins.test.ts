// The file of sign-ins: who may read it, its content after changes, and the message for a file that
// is not ours.
import assert from "node:assert/strict";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { readSignIns, renewSignIn, signInFile, writeSignIn, type SignIn } from "./sign-ins.ts";

const one = "https://one.example.org";
const other = "https://other.example.org";

function signIn(name: string): SignIn {
  return {
    accessToken: `access ${name}`,
    refreshToken: `refresh ${name}`,
    email: `${name}@example.org`,
    project: null,
  };
}

function machine(t: TestContext): { homeFolder: string } {
  const homeFolder = mkdtempSync(join(tmpdir(), "slipway-test-cli-"));
  t.after(() => rmSync(homeFolder, { recursive: true }));
  return { homeFolder };
}

test("only its owner can read the file and its folder, also when it is replaced, and nothing is left beside it", (t) => {
  const home = machine(t);
  writeSignIn(home, one, signIn("a"));
  writeSignIn(home, one, signIn("b"));
  const file = signInFile(home);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.equal(statSync(join(home.homeFolder, ".slipway")).mode & 0o777, 0o700);
  assert.deepEqual(readdirSync(join(home.homeFolder, ".slipway")), ["config.json"]);
  assert.ok(readFileSync(file, "utf8").includes("refresh b"));
});

test("each platform has its sign-in, the last one is current, and one that goes leaves the others", (t) => {
  const home = machine(t);
  assert.deepEqual(readSignIns(home), { current: null, platforms: {} });
  writeSignIn(home, one, signIn("a"));
  writeSignIn(home, other, signIn("b"));
  assert.deepEqual(
    [readSignIns(home).current, Object.keys(readSignIns(home).platforms)],
    [other, [one, other]],
  );
  writeSignIn(home, other, null);
  // No command acts on another platform unasked.
  assert.deepEqual(readSignIns(home), { current: null, platforms: { [one]: signIn("a") } });
  writeSignIn(home, one, null);
  assert.equal(readSignIns(home).current, null);
});

test("a renewed access token is kept, unless the sign-in has ended or is another one by now", (t) => {
  const home = machine(t);
  writeSignIn(home, one, signIn("a"));
  writeSignIn(home, other, signIn("b"));
  renewSignIn(home, one, { ...signIn("a"), accessToken: "new" });
  assert.deepEqual(
    [readSignIns(home).current, readSignIns(home).platforms[one]?.accessToken],
    [other, "new"],
  );
  renewSignIn(home, one, { ...signIn("c"), accessToken: "late" });
  assert.equal(readSignIns(home).platforms[one]?.accessToken, "new");
  writeSignIn(home, one, null);
  renewSignIn(home, one, { ...signIn("a"), accessToken: "late" });
  assert.equal(readSignIns(home).platforms[one], undefined);
});

test("a file that is not ours is named, and not replaced", (t) => {
  const home = machine(t);
  mkdirSync(join(home.homeFolder, ".slipway"));
  for (const text of [
    "",
    "{",
    "[]",
    '{"current":1,"platforms":{}}',
    '{"current":null,"platforms":{"a":{}}}',
  ]) {
    writeFileSync(signInFile(home), text);
    assert.throws(
      () => readSignIns(home),
      /config\.json was not written by slipway login\. Delete it/,
    );
    assert.throws(() => writeSignIn(home, one, signIn("a")), /Delete it/);
    assert.equal(readFileSync(signInFile(home), "utf8"), text);
  }
});
