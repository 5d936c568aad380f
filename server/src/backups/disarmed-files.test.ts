// What files of a backup that somebody has made up are left with.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, lstatSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { disarmFiles } from "./disarmed-files.ts";

const skip = process.getuid?.() === 0 ? false : "only root makes devices";

test("programs lose the rights of their owner, devices go, all else stays", { skip }, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "slipway-test-disarmed-"));
  t.after(() => rmSync(folder, { recursive: true }));
  const inner = join(folder, "storage/app");
  mkdirSync(inner, { recursive: true });
  chmodSync(inner, 0o2775);
  const at = (name: string): string => join(inner, name);
  const modes = { program: 0o6755, plain: 0o640, sticky: 0o1644 };
  for (const [name, mode] of Object.entries(modes)) {
    writeFileSync(at(name), name);
    chmodSync(at(name), mode);
  }
  symlinkSync("/etc/passwd", at("link"));
  execFileSync("mknod", [at("device"), "c", "1", "3"], { timeout: 10_000 });
  await disarmFiles(folder, AbortSignal.timeout(60_000));
  const modeOf = (name: string): number => lstatSync(at(name)).mode & 0o7777;
  assert.deepEqual(Object.keys(modes).map(modeOf), [0o755, 0o640, 0o1644]);
  assert.equal(modeOf("."), 0o2775);
  assert.equal(lstatSync(at("link")).isSymbolicLink(), true);
  assert.equal(existsSync(at("device")), false);
});
