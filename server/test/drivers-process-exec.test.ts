// Commands in replicas of the process driver run in the replica's own sandbox, and nowhere else.
import "#test/support/leftovers.ts";
import { tmpdir } from "node:os";
import { test } from "node:test";
import { detectSandbox } from "#drivers/process/detect-sandbox.ts";
import { execConformance } from "#test/support/exec-conformance.ts";
import { ProcessFixture } from "#test/support/process-fixture.ts";

const sandbox = await detectSandbox(tmpdir());
if (sandbox.kind === "none") {
  test(
    "the process driver",
    { skip: `this machine has no sandbox: ${sandbox.reason}` },
    () => undefined,
  );
} else {
  execConformance("process", () => {
    const fixture = new ProcessFixture({ sandbox });
    return Promise.resolve({ fixture, lives: (text) => fixture.processes(text).length > 0 });
  });
}
