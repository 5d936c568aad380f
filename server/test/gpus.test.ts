// GPUs of a machine: found, given to one replica each, lost and found again. With a stand-in for
// nvidia-smi that prints what the real one prints; nothing here has run on a real card.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test, type TestContext } from "node:test";
import { machinePool } from "#drivers/pools/machine-pool.ts";
import { GpuWatch } from "#drivers/pools/gpu-watch.ts";
import { cardArguments, readCards } from "#drivers/pools/nvidia-smi.ts";
import { openPlacement } from "#drivers/pools/open-placement.ts";
import { Placement } from "#drivers/pools/placement.ts";
import type { Driver } from "#drivers/driver.ts";
import { systemClock } from "#lib/clock.ts";
import { Lifecycle } from "#lib/lifecycle.ts";
import { silentLog } from "#lib/log.ts";
import type { ReplicaId } from "#lib/ids.ts";
import { platformAnswer } from "@slipway/contract/hardware-routes.ts";
import { deploy } from "#test/support/examples.ts";
import { temporaryFolder } from "#test/support/folder.ts";
import { startGitServer } from "#test/support/git-server.ts";
import { failures, NvidiaSmi, testCard } from "#test/support/nvidia-smi.ts";
import { startPlatformOnTestServer } from "#test/support/platform-on-test-server.ts";
import { ProcessFixture } from "#test/support/process-fixture.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { until } from "#test/support/until.ts";

const live = (): AbortSignal => new AbortController().signal;
const first = testCard(1, { usedMib: 512, percent: 40 });
const second = testCard(2);
const gpu = {
  compute: "ADA_L4",
  gpuCount: 1,
  cpuCores: 1,
  memoryGb: 1,
  tier: "interruptible",
  provider: null,
  region: null,
};

function watchOn(t: TestContext): { readonly smi: NvidiaSmi; readonly watch: GpuWatch } {
  const smi = new NvidiaSmi(join(temporaryFolder(t), "bin"));
  const path = `${smi.folder}:${process.env["PATH"] ?? ""}`;
  return {
    smi,
    watch: new GpuWatch({ toolEnvironment: { PATH: path }, clock: systemClock, log: silentLog }),
  };
}

test("the models that drivers report are the compute types of the interface; others are of none", () => {
  const named: readonly (readonly [string, number, string | null])[] = [
    ["Tesla T4", 15360, "TURING_T4"],
    ["NVIDIA T4", 16384, "TURING_T4"],
    ["NVIDIA L4", 23034, "ADA_L4"],
    ["NVIDIA L40", 46068, "ADA_L40"],
    ["NVIDIA L40S", 46068, "ADA_L40"],
    ["NVIDIA A10", 23028, "AMPERE_A10"],
    ["NVIDIA A10G", 23028, "AMPERE_A10"],
    ["A100-SXM4-40GB", 40536, "AMPERE_A100_40GB"],
    ["NVIDIA A100-PCIE-40GB", 40960, "AMPERE_A100_40GB"],
    ["NVIDIA A100-SXM4-80GB", 81920, "AMPERE_A100_80GB"],
    ["NVIDIA A100 80GB PCIe", 81920, "AMPERE_A100_80GB"],
    ["NVIDIA H100 80GB HBM3", 81559, "HOPPER_H100"],
    ["NVIDIA H100 PCIe", 81559, "HOPPER_H100"],
    ["NVIDIA H200", 143771, "HOPPER_H200"],
    ["NVIDIA B200", 183359, "BLACKWELL_B200"],
    ["NVIDIA RTX PRO 6000 Blackwell Server Edition", 97887, "BLACKWELL_RTX6000"],
    ["NVIDIA RTX 6000 Ada Generation", 49140, null],
    ["NVIDIA GeForce RTX 3090", 24576, null],
    ["NVIDIA A1000", 8188, null],
  ];
  for (const [name, mib, compute] of named) {
    const seen = readCards([`${first.uuid}, ${name}, 00000000:65:00.0, ${mib}, 0, 0`], 0);
    assert.ok(seen.kind === "seen");
    assert.deepEqual([name, seen.cards[0]?.compute], [name, compute]);
  }
});

test("cards are found with their memory, and their use is measured", async (t) => {
  const { smi, watch } = watchOn(t);
  smi.show([first, second]);
  await watch.look(live());
  assert.deepEqual(watch.gpus, [
    { id: first.uuid, compute: "ADA_L4", memoryGb: 24.153, isUsable: true },
    { id: second.uuid, compute: "ADA_L4", memoryGb: 24.153, isUsable: true },
  ]);
  assert.deepEqual(watch.use.get(first.uuid), { utilization: 0.4, memoryBytes: 512 * 1_048_576 });
  const header = execFileSync(join(smi.folder, "nvidia-smi"), [cardArguments[0], "--format=csv"], {
    encoding: "utf8",
  });
  assert.match(header, /23034 MiB, 512 MiB, 40 %/);
});

describe("a card that stops answering is not used until it answers again, and the others stay", () => {
  const cases = {
    "its row has no numbers": [
      [first, { ...second, totalMib: "[GPU is lost]", usedMib: "[GPU is lost]" }],
    ],
    "its row is gone": [[first]],
    "it fell off the bus, and nothing else is printed": [[], failures.offTheBus(second.busId)],
    "it is lost, after the rows of the others": [[first], failures.lost(second.busId)],
  } as const;
  for (const [name, [cards, failure]] of Object.entries(cases)) {
    test(name, async (t) => {
      const { smi, watch } = watchOn(t);
      const usable = (): boolean[] => watch.gpus.map(({ isUsable }) => isUsable);
      smi.show([first, second]);
      await watch.look(live());
      smi.show(cards, failure);
      await watch.look(live());
      assert.deepEqual(usable(), [true, false]);
      smi.show([first, second]);
      await watch.look(live());
      assert.deepEqual(usable(), [true, true]);
    });
  }

  test("all are lost with the driver, and none when the program itself is at fault", async (t) => {
    const { smi, watch } = watchOn(t);
    const usable = (): boolean[] => watch.gpus.map(({ isUsable }) => isUsable);
    for (const [failure, expected] of [
      [failures.mismatch, [true, true]],
      [failures.noDevices, [false, false]],
      [failures.noDriver, [false, false]],
      [{ says: "", exitCode: 137 }, [true, true]],
    ] as const) {
      smi.show([first, second]);
      await watch.look(live());
      smi.show([], failure);
      await watch.look(live());
      assert.deepEqual([failure.says, usable()], [failure.says, expected]);
    }
  });

  test("a card in MIG mode, whose utilization is not known, is used all the same", async (t) => {
    const { smi, watch } = watchOn(t);
    smi.show([{ ...first, percent: "[N/A]" }]);
    await watch.look(live());
    assert.deepEqual(watch.use.get(first.uuid), { utilization: 0, memoryBytes: 512 * 1_048_576 });
  });

  test("a machine without the program has no GPUs", async () => {
    const watch = new GpuWatch({
      toolEnvironment: { PATH: "/nowhere" },
      clock: systemClock,
      log: silentLog,
    });
    await watch.look(live());
    assert.deepEqual(watch.gpus, []);
  });
});

test("a pools file has the cards that are there; the rest is waited for, or simulated", async (t) => {
  const folder = temporaryFolder(t);
  const smi = new NvidiaSmi(join(folder, "bin"));
  smi.show([first]);
  const poolsFile = join(folder, "pools.toml");
  const gpus = '[[pools.gpus]]\ncompute = "ADA_L4"\ncount = 2\nmemory_gb = 24\n';
  writeFileSync(poolsFile, `[[pools]]\nname = "rack"\ncores = 4\nmemory_gb = 16\n${gpus}`);
  const poolsOf = async (simulateCompute: boolean) => {
    const lifecycle = new Lifecycle({ log: silentLog, clock: systemClock });
    const settings = {
      poolsFile,
      overcommit: 1,
      simulateCompute,
      providers: [],
      toolEnvironment: { PATH: smi.folder + ":/usr/bin:/bin" },
    };
    const { pools } = await openPlacement(settings, {
      log: silentLog,
      clock: systemClock,
      lifecycle,
    });
    await lifecycle.close();
    return pools[0]?.gpus.map(({ id, isUsable }) => [id, isUsable]);
  };
  assert.deepEqual(await poolsOf(false), [
    [first.uuid, true],
    ["rack/ADA_L4/1", false],
  ]);
  assert.deepEqual(await poolsOf(true), [
    [first.uuid, true],
    ["rack/ADA_L4/1", true],
  ]);
});

describe("replicas of the process driver", () => {
  function placement(): Placement {
    const gpus = [first, second].map(({ uuid }) => ({
      id: uuid,
      compute: "ADA_L4",
      memoryGb: 24,
      isUsable: true,
    }));
    const simulated = [{ id: "machine/TRN1/0", compute: "TRN1", memoryGb: 0, isUsable: true }];
    const machine = {
      cores: 64,
      memoryBytes: 1e12,
      overcommit: 1,
      gpus: [...gpus, ...simulated],
      isSimulating: false,
    };
    return new Placement([machinePool(machine)]);
  }

  async function opened(
    t: TestContext,
    fixture: ProcessFixture,
    given: Placement,
  ): Promise<Driver> {
    const driver = fixture.driver(undefined, given);
    await driver.open({ event: () => undefined, lines: () => Promise.resolve() });
    t.after(async () => {
      for (const { replicaId } of await driver.list()) {
        await driver.stop(replicaId, { graceMs: 0 });
        await driver.forget(replicaId);
      }
      await driver.close();
      await fixture.close();
    });
    return driver;
  }

  test("see the cards that are theirs and no other, whatever they set; a crash gives them back", async (t) => {
    const fixture = new ProcessFixture({ sandbox: { kind: "none", reason: "not what is tested" } });
    const given = placement();
    const driver = await opened(t, fixture, given);
    const start = async (wanted: Partial<typeof gpu>) => {
      const { artifact } = fixture.spec({ kind: "serves" });
      const environment = { CUDA_VISIBLE_DEVICES: "0,1" };
      const spec = replicaSpec({ artifact, ...gpu, ...wanted, environment });
      await driver.start(spec, live());
      const pid = await until("it runs", () => pidOf(fixture, spec.replicaId));
      return { replicaId: spec.replicaId, pid, sees: seenDevices(pid) };
    };
    const one = await start({});
    assert.equal(one.sees, first.uuid);
    assert.equal((await start({ compute: "CPU", gpuCount: 0 })).sees, "");
    assert.equal((await start({ compute: "TRN1" })).sees, "");
    assert.equal((await start({})).sees, second.uuid);
    const { artifact } = fixture.spec({ kind: "serves" });
    await assert.rejects(driver.start(replicaSpec({ artifact, ...gpu }), live()), {
      kind: "no_capacity",
    });
    process.kill(one.pid, "SIGKILL");
    await until("the card is free", () => given.capacity(gpu, []) === "now");
    assert.equal((await start({})).sees, first.uuid);
  });

  test("have the same cards for the next process of the platform, and their use is that of the cards", async (t) => {
    const fixture = new ProcessFixture({ sandbox: { kind: "none", reason: "not what is tested" } });
    const before = fixture.driver(undefined, placement());
    await before.open({ event: () => undefined, lines: () => Promise.resolve() });
    const spec = replicaSpec({
      artifact: fixture.spec({ kind: "serves" }).artifact,
      ...gpu,
      gpuCount: 2,
    });
    await before.start(spec, live());
    await before.close();
    const given = placement();
    const driver = await opened(t, fixture, given);
    assert.deepEqual(given.held.get(spec.replicaId)?.gpus, [first.uuid, second.uuid]);
    assert.equal(given.capacity(gpu, []), "later");
    const use = { utilization: 0.5, memoryBytes: 1e9 };
    given.setGpuUse(
      new Map([
        [first.uuid, use],
        [second.uuid, { ...use, utilization: 1 }],
      ]),
    );
    const measured = await until(
      "it is measured",
      async () => (await driver.usage()).get(spec.replicaId)?.gpu,
    );
    assert.deepEqual(measured, { utilization: 0.75, memoryBytes: 2e9 });
    await driver.stop(spec.replicaId, { graceMs: 0 });
    assert.equal(given.capacity(gpu, []), "now");
  });
});

/** Ends when a file in its storage says so, and leaves another one. */
const mortal = `
import os
import threading
import time
import uuid

instance = uuid.uuid4().hex

def watch():
    while not os.path.exists("/persistent-storage/die"):
        time.sleep(0.01)
    os.rename("/persistent-storage/die", "/persistent-storage/died")
    os._exit(3)

threading.Thread(target=watch, daemon=True).start()

def run():
    return [instance, os.environ["CUDA_VISIBLE_DEVICES"]]
`;

test("the card of a replica that dies while the platform is killed is given to the next one", async (t) => {
  const smi = new NvidiaSmi(join(temporaryFolder(t, "smi"), "bin"));
  smi.show([first]);
  const server = await startGitServer(t);
  await server.createRepo("acme", "app", { "main.py": mortal });
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_GIT_URL: server.urlTemplate,
    PATH: `${smi.folder}:${process.env["PATH"] ?? ""}`,
  });
  const fields = {
    compute: "ADA_L4",
    gpuCount: 1,
    cpu: 1,
    memory: 0.5,
    cooldownPeriodSeconds: 600,
  };
  const app = await deploy(platform, { name: "mortal", gitRepo: "acme/app", ...fields });
  assert.equal(app.status, "success", app.log);
  const storage = join(platform.dataDir, "storage", platform.bootstrap.projectId);
  /**
   * Returns the process and the cards of the replica that answers. After two short lives the next
   * start waits a while.
   */
  const answered = async (): Promise<readonly [string, string]> =>
    await until("a replica answers", async () => {
      const response = await platform.call("mortal", "run", {});
      const body = (await response.json()) as { result: [string, string]; message: string };
      if (response.status === 200) return body.result;
      assert.match(body.message, /^No replica of the app runs: The app ended with exit code 3\./);
      return undefined;
    });
  const die = async (): Promise<void> => {
    rmSync(join(storage, "died"), { force: true });
    writeFileSync(join(storage, "die"), "");
    await until("the replica has died", () => existsSync(join(storage, "died")));
  };
  const ends = {
    "the replica dies while the platform is away": async () => {
      await platform.end("SIGKILL");
      await die();
    },
    "the platform is killed before it has seen the end": async () => {
      await die();
      await platform.end("SIGKILL");
    },
  };
  for (const [name, end] of Object.entries(ends)) {
    await t.test(name, async () => {
      const [before, cards] = await answered();
      assert.equal(cards, first.uuid);
      await end();
      await platform.restart();
      const [after, cardsAfter] = await answered();
      assert.notEqual(after, before);
      assert.equal(cardsAfter, first.uuid, "there is only this one");
    });
  }
  const { baseUrl, projectId, operatorToken } = platform.bootstrap;
  const headers = { authorization: `Bearer ${operatorToken}` };
  const seen = platformAnswer.parse(
    await (await fetch(`${baseUrl}/v2/operator/platform`, { headers })).json(),
  );
  assert.deepEqual(
    seen.pools.map(({ replicas, apps }) => ({ replicas, apps })),
    [{ replicas: 1, apps: [{ projectId, appId: app.appId, name: "mortal", replicas: 1 }] }],
  );
});

/** The process whose environment names the replica. */
function pidOf(fixture: ProcessFixture, replicaId: ReplicaId): number | undefined {
  const [found] = fixture.processes(`SLIPWAY_REPLICA_ID=${replicaId}`);
  const pid = /^process (\d+):/.exec(found ?? "")?.[1];
  return pid === undefined ? undefined : Number(pid);
}

function seenDevices(pid: number): string | undefined {
  const environment = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
  return environment.find((line) => line.startsWith("CUDA_VISIBLE_DEVICES="))?.split("=")[1];
}
