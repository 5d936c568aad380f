// What the steps of image builds may use of the machine, with a real Docker engine.
import "#test/support/leftovers.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { BuildFailed } from "#drivers/builder.ts";
import { sameFiles } from "#drivers/docker/own-container.ts";
import { connectEngine } from "#drivers/docker/engine.ts";
import { baseImage, noEngine, openEngine } from "#test/support/docker-engine.ts";
import { imageBuilds, type ImageBuilds } from "#test/support/image-builds.ts";
import type { WithAfter } from "#test/support/clean-last.ts";

const skip = await noEngine();

const plan = { runtime: "custom", dockerfilePath: "Dockerfile" } as const;

async function limitedBuilds(t: WithAfter): Promise<ImageBuilds> {
  const engine = await openEngine();
  const { facts } = await connectEngine(engine.socketPath);
  const limits = { memoryBytes: 200_000_000, cpuCores: null, tasksMax: 50 };
  return imageBuilds(t, engine, {
    limits: { engineRoot: facts.dataRoot, machine: sameFiles, limits },
  });
}

/** Runs the Python program as a step; it first waits until the limits are there. */
function withStep(program: string): Readonly<Record<string, string>> {
  const waits = `import glob, time
def limit():
    files = glob.glob("/sys/fs/cgroup/memory/memory.limit_in_bytes") or ["/sys/fs/cgroup/memory.max"]
    return open(files[0]).read().strip()
while limit() != str(200_000_000 // 4096 * 4096): time.sleep(0.05)
`;
  return {
    Dockerfile: `FROM ${baseImage}\nCOPY step.py .\nRUN python3 step.py\nCMD ["true"]\n`,
    "step.py": waits + program,
  };
}

test(
  "a step that needs more memory than it may use is ended, and the reason names the limit",
  { skip },
  async (t) => {
    const builds = await limitedBuilds(t);
    const eats = withStep("kept = [bytearray(b'x' * 10_000_000) for _ in range(100)]");
    await assert.rejects(builds.build(eats, { plan }), (error) => {
      assert.ok(error instanceof BuildFailed, String(error));
      assert.match(
        error.message,
        /ended with exit code 137 \(killed, possibly because it ran out of memory\)\. .* A step of a build may use 0\.2 GB of memory here\.$/,
      );
      return true;
    });
  },
);

test(
  "a step that starts too many processes gets no more, and one within its limits goes on",
  { skip },
  async (t) => {
    const builds = await limitedBuilds(t);
    const lines: string[] = [];
    const forks = withStep(`import os, threading
stop, count = threading.Event(), 0
try:
    for _ in range(200):
        threading.Thread(target=stop.wait).start()
        count += 1
except RuntimeError:
    pass
stop.set()
print("STARTED", count)`);
    await builds.build(forks, { plan, lines });
    const count = Number(/STARTED (\d+)/.exec(lines.join("\n"))?.[1]);
    assert.ok(count > 10 && count < 50, `${count} threads`);
  },
);

test("builds of others are not limited", { skip }, async (t) => {
  const limited = await limitedBuilds(t);
  const others = imageBuilds(t, await openEngine());
  const lines: string[] = [];
  const shows = {
    Dockerfile: `FROM ${baseImage}\nRUN sleep 1; cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max 2>&-; true\nCMD ["true"]\n`,
  };
  // Both at once.
  await Promise.all([
    limited.build(withStep("time.sleep(3)"), { plan }),
    others.build(shows, { plan, lines }),
  ]);
  assert.ok(!lines.join("\n").includes("1999"), lines.join("\n"));
});
