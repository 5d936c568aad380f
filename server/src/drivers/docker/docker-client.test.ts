// Commands of the docker command line, with programs in its place that print what it may print.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "#test/support/folder.ts";
import { runClient } from "./docker-client.ts";

const environment = { PATH: "/usr/bin:/bin" };

test("a line of the output is whole, however long it is", async (t) => {
  const program = join(temporaryFolder(t, "client"), "docker");
  writeFileSync(program, "#!/bin/sh\nprintf '%0300000d\\nend\\n' 7\n", { mode: 0o755 });
  const output = await runClient(program, ["image", "inspect"], { environment });
  assert.equal(output, `${"7".padStart(300_000, "0")}\nend`);
});

test("the error of a command that fails has what it printed last", async (t) => {
  const program = join(temporaryFolder(t, "client"), "docker");
  writeFileSync(program, "#!/bin/sh\necho one\necho two >&2\nexit 1\n", { mode: 0o755 });
  await assert.rejects(
    runClient(program, ["image", "rm"], { environment }),
    /^Error: docker image rm: one\ntwo$/,
  );
});
