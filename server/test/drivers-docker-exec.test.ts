// Commands in replicas of the Docker driver run in the replica's container, on a real engine.
import "#test/support/leftovers.ts";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { noEngine } from "#test/support/docker-engine.ts";
import { DockerFixture } from "#test/support/docker-fixture.ts";
import { execConformance } from "#test/support/exec-conformance.ts";

const skip = await noEngine();
if (skip === false) execConformance("docker", async () => ({ fixture: await DockerFixture.open(), lives }));
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
