// What users other than root can change in a program.
import assert from "node:assert/strict";
import { chmodSync, chownSync, lchownSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { changeableByOthers } from "./program-owner.ts";

const skip = process.getuid?.() === 0 ? false : "needs root, who owns the program";
const person = 1000;
/** A group of the system that one of its users is in, and one that nobody is in. */
const groups = { withMember: 1, without: 987 };

/** A program in two folders, with data. */
function makeProgram(t: TestContext) {
  const folder = mkdtempSync(join(tmpdir(), "slipway-test-owner-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const root = join(folder, "slipway");
  const bin = join(root, "node_modules/bin");
  mkdirSync(bin, { recursive: true, mode: 0o755 });
  const node = join(bin, "node");
  writeFileSync(node, "", { mode: 0o755 });
  const dataDir = join(root, ".slipway");
  mkdirSync(dataDir);
  const found = () =>
    changeableByOthers({
      root,
      node,
      dataDir,
      cwd: root,
      platform: [],
      stop: [],
      backup: [],
      isCheckout: true,
      isOwn: true,
    });
  return { folder, root, bin, node, dataDir, found };
}

test("a program of root is nobody else's, whoever owns its data", { skip }, (t) => {
  const { root, dataDir, found } = makeProgram(t);
  symlinkSync("node_modules/bin/node", join(root, "link"));
  chownSync(dataDir, person, person);
  assert.equal(found(), null);
});

test("the owner of a file, of a link or of a folder above can change it", { skip }, (t) => {
  const { folder, root, node, found } = makeProgram(t);
  const link = join(root, "link");
  symlinkSync("node_modules/bin/node", link);
  lchownSync(link, person, person);
  assert.equal(found(), link);
  rmSync(link);
  chownSync(node, person, 0);
  assert.equal(found(), node);
  chownSync(folder, person, 0);
  assert.equal(found(), folder);
});

test("those who may write can change it: all, or a group of people", { skip }, (t) => {
  const { bin, found } = makeProgram(t);
  chmodSync(bin, 0o775);
  assert.equal(found(), null);
  chownSync(bin, 0, person);
  assert.equal(found(), bin);
  chmodSync(bin, 0o755);
  assert.equal(found(), null);
  chmodSync(bin, 0o777);
  assert.equal(found(), bin);
});

test("a group of the system counts if somebody is in it", { skip }, (t) => {
  const { bin, found } = makeProgram(t);
  chmodSync(bin, 0o775);
  chownSync(bin, 0, groups.without);
  assert.equal(found(), null);
  chownSync(bin, 0, groups.withMember);
  assert.equal(found(), bin);
});

test("what links lead to is looked at, outside the program too, and once", { skip }, (t) => {
  const { folder, root, found } = makeProgram(t);
  const shared = join(folder, "shared");
  const inside = join(shared, "lib.js");
  mkdirSync(shared, { mode: 0o755 });
  writeFileSync(inside, "");
  symlinkSync(root, join(shared, "back"));
  symlinkSync("../shared", join(root, "link"));
  symlinkSync("missing", join(root, "dangling"));
  assert.equal(found(), null);
  chownSync(inside, person, 0);
  assert.equal(found(), inside);
  chownSync(inside, 0, 0);
  const open = join(folder, "open");
  mkdirSync(open);
  chownSync(open, person, 0);
  symlinkSync(join(open, "missing"), join(root, "elsewhere"));
  assert.equal(found(), open);
});
