// What a platform says about its hardware, and what it refuses of it, from outside: with a pools
// file, and a stand-in for nvidia-smi that shows some of its cards.
import "./support/leftovers.ts";
import { platformAnswer } from "@slipway/contract/hardware-routes.ts";
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryFolder } from "./support/folder.ts";
import { NvidiaSmi, testCard } from "./support/nvidia-smi.ts";
import type { PlatformProcess } from "./support/platform-process.ts";
import { startPlatformOnTestServer } from "./support/platform-on-test-server.ts";
import { until } from "./support/until.ts";

const pools = `
[[pools]]
name = "everywhere"
cores = 64
memory_gb = 256
overcommit = 90
[[pools.gpus]]
compute = "ADA_L4"
count = 3
memory_gb = 22
[[pools.gpus]]
compute = "TRN1"
count = 1

[[pools]]
name = "spot"
provider = "local"
region = "eu-north-1"
tier = "interruptible"
cpu_apps = false
cores = 8.5
memory_gb = 32
[[pools.gpus]]
compute = "HOPPER_H100"
count = 18
memory_gb = 80
`;

const prices = `
[[prices]]
cpu_core = 0.00001
memory_gb = 0.000002
compute = { ADA_L4 = 0.0002, HOPPER_H100 = 0.001 }
[[prices.pools]]
provider = "local"
region = "eu-north-1"
compute = { HOPPER_H100 = 0.0005 }
`;

async function seesPools(platform: PlatformProcess): Promise<void> {
  const headers = { authorization: `Bearer ${platform.bootstrap.operatorToken}` };
  const answer = await fetch(`${platform.bootstrap.baseUrl}/v2/operator/platform`, { headers });
  const { driver, database, pools: all } = platformAnswer.parse(await answer.json());
  assert.equal(driver, "process");
  const sizes = database.tables.map(({ bytes }) => bytes);
  assert.equal(sizes.length, 10);
  assert.deepEqual(
    sizes,
    sizes.toSorted((one, other) => other - one),
  );
  assert.ok(
    database.bytes > sizes.reduce((sum, bytes) => sum + bytes, 0) && database.bytesThen > 0,
  );
  assert.ok(Date.parse(database.since) <= Date.now());
  const [first, spot] = all;
  const gpus = [
    { compute: "ADA_L4", count: 3, usable: 1, free: 1 },
    { compute: "TRN1", count: 1, usable: 0, free: 0 },
  ];
  assert.deepEqual(
    [first?.name, first?.freeCores === first?.cores, first?.gpus, first?.replicas],
    ["everywhere", true, gpus, 0],
  );
  assert.deepEqual([spot?.region, spot?.freeMemoryGb, spot?.gpus[0]?.free], ["eu-north-1", 32, 18]);
  assert.equal((await platform.api("GET", "/v2/operator/platform")).status, 403);
}

test("hardware is what a replica can have: within the fields, of cards that answer, with the prices of the place", async (t) => {
  const folder = temporaryFolder(t);
  const poolsFile = join(folder, "pools.toml");
  const pricesFile = join(folder, "prices.toml");
  await writeFile(poolsFile, pools);
  await writeFile(pricesFile, prices);
  const smi = new NvidiaSmi(join(folder, "bin"));
  const first = testCard(1);
  const second = testCard(2);
  const large = Array.from({ length: 18 }, (_, index) =>
    testCard(10 + index, { name: "NVIDIA H100 80GB HBM3", totalMib: 81559 }),
  );
  smi.show([first, second, ...large]);
  const platform = await startPlatformOnTestServer(t, {
    SLIPWAY_POOLS_FILE: poolsFile,
    SLIPWAY_PRICES_FILE: pricesFile,
    PATH: `${smi.folder}:${process.env["PATH"] ?? ""}`,
  });
  const hardware = async () => (await platform.api("GET", "/v2/hardware")).body;
  const everywhere = { pool: "everywhere", provider: null, region: null, tier: "protected" };
  const limits = { maxCpu: 192, maxMemoryGb: 1984 };
  const price = { cpuSecond: 0.00001, memoryGbSecond: 0.000002 };
  const listed = (cards: number) => ({
    items: [
      {
        compute: "CPU",
        ...everywhere,
        ...limits,
        maxGpuCount: 0,
        gpuMemoryGb: null,
        price: { gpuSecond: 0, ...price },
      },
      {
        compute: "ADA_L4",
        ...everywhere,
        ...limits,
        maxGpuCount: cards,
        gpuMemoryGb: 24.153,
        price: { gpuSecond: 0.0002, ...price },
      },
      {
        compute: "TRN1",
        ...everywhere,
        ...limits,
        maxGpuCount: 0,
        gpuMemoryGb: null,
        price: { gpuSecond: 0, ...price },
      },
      {
        compute: "HOPPER_H100",
        pool: "spot",
        provider: "local",
        region: "eu-north-1",
        tier: "interruptible",
        maxCpu: 8.5,
        maxMemoryGb: 32,
        maxGpuCount: 16,
        gpuMemoryGb: 85.521,
        price: { gpuSecond: 0.0005, ...price },
      },
    ],
  });
  assert.deepEqual(await hardware(), listed(2), "the third card and the accelerator are not there");
  const told = platform
    .output()
    .split("\n")
    .filter((line) => line.includes("GPUs of this pool were not found"));
  assert.equal(told.length, 1, platform.output());
  assert.match(told[0] ?? "", /"pool":"everywhere","compute":\["ADA_L4","TRN1"\],"missing":2/);
  smi.show([first, { ...second, totalMib: "[GPU is lost]", usedMib: "[GPU is lost]" }, ...large]);
  const counted = async () => (await hardware()).items[1].maxGpuCount === 1;
  await until("the second card is lost", counted, { deadlineMs: 60_000 });
  assert.deepEqual(await hardware(), listed(1));

  await t.test("operators see in numbers what is free of each pool", () => seesPools(platform));

  await t.test(
    "what it lists is not refused, and what is more is refused with what there is",
    async () => {
      const path = `/v2/projects/${platform.bootstrap.projectId}/apps`;
      const wish = {
        gitRepo: "acme/app",
        name: "largest",
        compute: "HOPPER_H100",
        cpu: 8.5,
        memory: 32,
        gpuCount: 16,
      };
      const made = await platform.api("POST", `${path}/git`, wish);
      assert.equal(made.status, 201, JSON.stringify(made.body));
      const more =
        "A replica of the app needs 16 GPUs, 8.501 cores and 32 GB on HOPPER_H100, but the platform has at most";
      const atMost = `${more} 16 GPUs, 8.5 cores and 32 GB in one place. Request less: cpu, memory, gpuCount`;
      const refused = await platform.api("POST", `${path}/git`, {
        ...wish,
        name: "larger",
        cpu: 8.501,
      });
      assert.deepEqual(
        [refused.status, refused.body],
        [400, { message: `${atMost}, or hardware in the TOML file.` }],
      );
    },
  );
});

test("a pools file with prices is refused, and says where prices are set", async (t) => {
  const poolsFile = join(temporaryFolder(t), "pools.toml");
  await writeFile(poolsFile, pools.replace("cores = 64", "cores = 64\nprice = 0.5"));
  await assert.rejects(
    startPlatformOnTestServer(t, { SLIPWAY_POOLS_FILE: poolsFile }),
    /SLIPWAY_POOLS_FILE \(.*\) cannot be used: pools\[0\]\.price is unknown: a pool has no prices of its own\. .* that SLIPWAY_PRICES_FILE names/,
  );
});

test("a pools file that is not there is named", async (t) => {
  const poolsFile = join(temporaryFolder(t), "pools.toml");
  const started = startPlatformOnTestServer(t, { SLIPWAY_POOLS_FILE: poolsFile });
  await assert.rejects(
    started,
    new RegExp(`SLIPWAY_POOLS_FILE .* cannot be used: there is no file ${poolsFile}\\.`),
  );
});
