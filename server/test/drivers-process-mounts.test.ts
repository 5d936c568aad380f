// The sandbox on a machine whose system folders are mounts of their own, as most are, for root and
// for an ordinary user.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { accessSync, chmodSync, constants } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "#test/support/folder.ts";

const someUser = 65_533;

/** Null when this test can become another user and that user can read the code here. */
function whyNot(): string | false {
  if (process.platform !== "linux" || process.getuid?.() !== 0)
    return "only root can arrange mounts for another user";
  try {
    const reads = `test -r ${process.execPath} && test -r ${import.meta.filename}`;
    execFileSync("setpriv", [`--reuid=${someUser}`, "--clear-groups", "sh", "-c", reads]);
    accessSync("/sys", constants.R_OK);
    return false;
  } catch {
    return "another user cannot read the code of this test";
  }
}

const code = `
const { detectSandbox } = await import(process.argv[1]);
console.log(JSON.stringify(await detectSandbox(process.argv[2])));`;

/** What `detectSandbox` finds where /sys is mounted as most machines do it. */
function detected(folder: string, prefix: readonly string[]): { kind: string; reason?: string } {
  const script = 'mount -o remount,bind,nosuid,nodev,noexec /sys || exit 1; exec "$@"';
  const module = join(import.meta.dirname, "../src/drivers/process/detect-sandbox.ts");
  const node = [process.execPath, "--input-type=module", "-e", code, module, folder];
  const command = ["--mount", "sh", "-c", script, "sh", ...prefix, ...node];
  return JSON.parse(execFileSync("unshare", command, { encoding: "utf8" })) as { kind: string };
}

test(
  "apps are sandboxed where /sys forbids devices and programs, for root and for others",
  { skip: whyNot() },
  (t) => {
    const folder = temporaryFolder(t, "mounts");
    chmodSync(folder, 0o777);
    assert.equal(detected(join(folder, "root"), []).kind, "namespaces");
    const asUser = detected(join(folder, "user"), [
      "setpriv",
      `--reuid=${someUser}`,
      "--clear-groups",
    ]);
    const hasUserNamespaces = !/unshare failed/.test(asUser.reason ?? "");
    assert.equal(asUser.kind, hasUserNamespaces ? "namespaces" : "none", asUser.reason);
  },
);
