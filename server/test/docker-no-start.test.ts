// An engine that does not start is given up with its reason and leaves nothing, so that no run of
// tests waits for it.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { engineObstacle } from "#test/support/dockerd.ts";
import { temporaryFolder } from "#test/support/folder.ts";

const skip = engineObstacle();

/** Starts the engine of the folder, and prints its own process id and why that failed. */
const code = `
console.log(process.pid);
const { startEngine } = await import(process.argv[1]);
await startEngine(process.argv[2], { isLocal: true, waitMs: 3000 }).then(
  async (engine) => (await engine.stop(), console.log("it started")),
  (error) => console.log(error.message),
);`;

const engines = [
  {
    name: "that ends at once",
    program: "#!/bin/sh\necho no bridge here\nexit 1\n",
    reason: /it ended.*no bridge/s,
  },
  {
    name: "that neither answers nor ends",
    program: `#!/usr/bin/python3
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("waiting for nothing", flush=True)
while True: time.sleep(1000)
`,
    reason: /within 3000 ms.*waiting for nothing/s,
  },
];

for (const { name, program, reason } of engines) {
  test(`an engine ${name} is given up with its reason`, { skip, timeout: 120_000 }, (t) => {
    const folder = temporaryFolder(t, "no-engine");
    const programs = join(folder, "programs");
    mkdirSync(programs);
    writeFileSync(join(programs, "dockerd"), program, { mode: 0o755 });
    const support = join(import.meta.dirname, "support/dockerd.ts");
    const node = ["--input-type=module", "-e", code, support, join(folder, "e")];
    const env = { ...process.env, SLIPWAY_TEST_DOCKERD: programs };
    const said = execFileSync(process.execPath, node, { env, encoding: "utf8", timeout: 90_000 });
    assert.match(said, reason);
    assert.ok(said.includes(programs), said);
    const bridge = `slpt${said.split("\n")[0]}x`;
    const links = readdirSync("/sys/class/net").filter((link) => link.startsWith(bridge));
    const running = execFileSync("ps", ["-e", "-o", "args="], { encoding: "utf8" }).split("\n");
    assert.deepEqual([...links, ...running.filter((line) => line.includes(programs))], []);
  });
}
