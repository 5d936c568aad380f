// The process driver keeps what every driver must, in a sandbox and where the machine has none.
import "#test/support/leftovers.ts";
import { tmpdir } from "node:os";
import { test } from "node:test";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { drawCases } from "#test/support/drawn-cases.ts";
import type { Sandbox } from "#drivers/process/sandbox.ts";
import { conformance } from "#test/support/driver-conformance.ts";
import { ProcessFixture } from "#test/support/process-fixture.ts";

const sandbox = await detectSandbox(tmpdir());

const none = { kind: "none", reason: "as a test" } as const;
const grounds: (readonly [string, Sandbox])[] = [["process (without a sandbox)", none]];
if (sandbox.kind === "namespaces") {
  grounds.unshift(["process (sandboxed)", sandbox]);
  if (sandbox.hasOverlays)
    grounds.push(["process (sandboxed, copying)", { ...sandbox, hasOverlays: false }]);
} else {
  test(
    "the process driver in a sandbox",
    { skip: `this machine has none: ${sandbox.reason}` },
    () => undefined,
  );
}

for (const [name, one] of drawCases(grounds, { what: "kinds of sandbox", max: 1 })) {
  conformance(name, () => Promise.resolve(new ProcessFixture({ sandbox: one })));
}
