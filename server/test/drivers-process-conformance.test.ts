// The process driver keeps what every driver must, in a sandbox and where the machine has none.
import "#test/support/leftovers.ts";
import { tmpdir } from "node:os";
import { test } from "node:test";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { conformance } from "#test/support/driver-conformance.ts";
import { ProcessGround } from "#test/support/process-ground.ts";

const sandbox = await detectSandbox(tmpdir());

if (sandbox.kind === "namespaces") {
  conformance("process (sandboxed)", () => Promise.resolve(new ProcessGround({ sandbox })));
  if (sandbox.hasOverlays) {
    const copying = { ...sandbox, hasOverlays: false };
    conformance("process (sandboxed, copying)", () => Promise.resolve(new ProcessGround({ sandbox: copying })));
  }
} else {
  test("the process driver in a sandbox", { skip: `this machine has none: ${sandbox.reason}` }, () => undefined);
}

const none = { kind: "none", reason: "as a test" } as const;
conformance("process (without a sandbox)", () => Promise.resolve(new ProcessGround({ sandbox: none })));
