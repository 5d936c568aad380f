// Commands in replicas of the Docker driver run in the replica's container, on a real engine.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { noEngine } from "#test/support/docker-engine.ts";
import { DockerFixture } from "#test/support/docker-fixture.ts";
import { DriverSink } from "#test/support/driver-sink.ts";
import { execConformance } from "#test/support/exec-conformance.ts";
import { until } from "#test/support/until.ts";

const skip = await noEngine();
if (skip === false)
  execConformance("docker", async () => ({ fixture: await DockerFixture.open(), lives }));
else test("the docker driver", { skip }, () => undefined);

/** The engine's processes are this machine's. */
function lives(text: string): boolean {
  return readdirSync("/proc").some((pid) => /^\d+$/.test(pid) && commandOf(pid).includes(text));
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

/** Halts each shell that looks for what a command has left. */
const halting = `import os, signal
print("begun", flush=True)
while True:
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"none=" + b"0" in open("/proc/" + pid + "/cmdline", "rb").read(): os.kill(int(pid), signal.SIGSTOP)
        except OSError: pass
`;

test(
  "a shell of the container that does nothing holds up neither ends nor starts",
  { skip },
  async () => {
    const fixture = await DockerFixture.open();
    const sink = new DriverSink();
    let driver = fixture.driver();
    try {
      await driver.open(sink);
      const spec = fixture.python(halting);
      await driver.start(spec, new AbortController().signal);
      await until("it halts shells", () => sink.texts(spec.replicaId).includes("begun"), {
        deadlineMs: 30_000,
      });
      const exec = await driver.exec(spec.replicaId, { command: ["true"], terminal: null });
      exec.stdout.resume();
      exec.stderr.resume();
      assert.equal((await exec.ended).exitCode, 0);
      await driver.close();
      driver = fixture.driver();
      await driver.open(sink);
      assert.deepEqual(
        (await driver.list()).map(({ state }) => state),
        ["running"],
      );
      await driver.stop(spec.replicaId, { graceMs: 0 });
      await driver.forget(spec.replicaId);
    } finally {
      await driver.close();
      await fixture.close();
    }
  },
);
