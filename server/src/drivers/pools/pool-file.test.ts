// What a file of pools may say, and how everything else is refused; and the pool of a machine
// without one.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { OperatorFileRefused } from "#lib/operator-file.ts";
import { sharedWarnings, whyNever } from "./fit.ts";
import { machinePool } from "./machine-pool.ts";
import { readPoolFile } from "./pool-file.ts";

const providers = ["aws", "local"];
const file = `
[[pools]]
name = "rack-1"
provider = "local"
region = "eu-north-1"
cores = 64
memory_gb = 256
cpu_apps = false
[[pools.gpus]]
compute = "ADA_L4"
count = 4
memory_gb = 24

[[pools]]
name = "spot"
tier = "interruptible"
cores = 8
memory_gb = 32
overcommit = 2
`;

test("a pool says where it is, what it has and who may use it; what it leaves out is anywhere, for everybody, and promised once", () => {
  const [rack, spot] = readPoolFile(file, providers);
  assert.deepEqual(rack, {
    name: "rack-1",
    provider: "local",
    region: "eu-north-1",
    tier: "protected",
    takesCpu: false,
    cores: 64,
    memoryGb: 256,
    overcommit: 1,
    gpus: [{ compute: "ADA_L4", count: 4, memoryGb: 24 }],
  });
  assert.deepEqual(spot, {
    name: "spot",
    provider: null,
    region: null,
    tier: "interruptible",
    takesCpu: true,
    cores: 8,
    memoryGb: 32,
    overcommit: 2,
    gpus: [],
  });
});

describe("what is wrong is refused with its field, what stands there and what may", () => {
  const pool = '[[pools]]\nname = "a"\ncores = 1\nmemory_gb = 1\n';
  const refusals: readonly (readonly [string, string])[] = [
    ["", "pools is missing, but must be a list of [[pools]]."],
    ["pools = 3", "pools is 3, but must be a list of [[pools]]."],
    ["[[pool]]", "pool is unknown; did you mean pools?"],
    ["[[pools]]\ncores = 1", "pools[0].name is missing, but must be 1 to 63 letters"],
    [
      pool.replace("cores = 1", "cores = 0"),
      "pools[0].cores is 0, but must be a number from 0.25 to 100000.",
    ],
    [`${pool}provider = "gcp"`, 'pools[0].provider is "gcp", but must be one of aws, local.'],
    [
      `${pool}region = "global"`,
      'pools[0].region is "global", but must be left out for every region.',
    ],
    [
      `${pool}tier = "cheap"`,
      'pools[0].tier is "cheap", but must be one of protected, interruptible.',
    ],
    [`${pool}cpu_apps = 1`, "pools[0].cpu_apps is 1, but must be true or false."],
    [`${pool}overcommit = 0.5`, "pools[0].overcommit is 0.5, but must be a number from 1 to 1000."],
    [`${pool}gpu = 1`, "pools[0].gpu is unknown; did you mean gpus?"],
    [`${pool}gpus = 2`, "pools[0].gpus is 2, but must be a list of [[pools[0].gpus]]."],
    [
      `${pool}[[pools.gpus]]\ncompute = "CPU"\ncount = 1`,
      'pools[0].gpus[0].compute is "CPU", but must be one of ADA_L4,',
    ],
    [
      `${pool}[[pools.gpus]]\ncompute = "ADA_L4"\ncount = 0`,
      "pools[0].gpus[0].count is 0, but must be a whole number",
    ],
    [
      `${pool}price = 0.5`,
      "pools[0].price is unknown: a pool has no prices of its own. They depend on compute type, provider and region, in the file that SLIPWAY_PRICES_FILE names",
    ],
    [
      `${pool}[[pools.gpus]]\ncompute = "ADA_L4"\nprice = 1`,
      "pools[0].gpus[0].price is unknown: a pool has no prices",
    ],
    [`${pool}${pool}`, 'pools[1].name is "a", but must be a name that no other pool has.'],
  ];
  for (const [text, message] of refusals) {
    test(JSON.stringify(text), () => {
      assert.throws(
        () => readPoolFile(text, providers),
        (error: unknown) =>
          error instanceof OperatorFileRefused && error.message.startsWith(message),
      );
    });
  }
});

describe("an app that fits nowhere learns what would fit", () => {
  const pools = readPoolFile(file, providers).map((pool) => ({
    ...pool,
    gpus: pool.gpus.map((gpus) => ({ ...gpus, usable: gpus.count })),
  }));
  const gpu = { compute: ["ADA_L4"], gpuCount: 2, cpu: 4, memory: 16 };

  test("by type, by location and tier, and by size", () => {
    assert.equal(whyNever(pools, gpu), null);
    assert.equal(whyNever(pools, {}), null, "nothing is known yet");
    assert.match(
      whyNever(pools, { ...gpu, compute: ["HOPPER_H100"] }) ?? "",
      /requests compute HOPPER_H100, but this platform has only CPU, ADA_L4\./,
    );
    assert.match(
      whyNever(pools, { ...gpu, provider: "aws", region: "us-1" }) ?? "",
      /^The app requests compute ADA_L4 with provider aws, region us-1, but the platform has it only with provider local, region eu-north-1, computeTier protected\. Change provider, region or computeTier/,
    );
    assert.match(
      whyNever(pools, { ...gpu, gpuCount: 8 }) ?? "",
      /^A replica of the app needs 8 GPUs, 4 cores and 16 GB on ADA_L4, but the platform has at most 4 GPUs, 64 cores and 256 GB in one place\. Request less: cpu, memory, gpuCount/,
    );
    assert.match(
      whyNever(pools, { compute: ["CPU"], cpu: 48 }) ?? "",
      /needs 48 cores on CPU, .* at most 16 cores and 64 GB/,
    );
    assert.match(
      whyNever(pools, { compute: ["CPU"], computeTier: "protected" }) ?? "",
      /with computeTier protected, .* any provider, any region, computeTier interruptible/,
    );
  });

  test("and what is only shared is a warning", () => {
    assert.deepEqual(sharedWarnings(pools, { compute: ["CPU"], cpu: 12, memory: 4 }), [
      "cpu is 12, but apps have only 8 cores here, which they share.",
    ]);
    assert.equal(sharedWarnings(pools, { compute: ["CPU"], cpu: 1, memory: 40 }).length, 1);
    assert.deepEqual(sharedWarnings(pools, gpu), []);
  });
});

test("a machine keeps a tenth for the platform, is everywhere, and has what is simulated only when that is asked for", () => {
  const given = { cores: 2, memoryBytes: 8e9, overcommit: 100, gpus: [] };
  const pool = machinePool({ ...given, isSimulating: false });
  assert.deepEqual(pool, {
    name: "machine",
    provider: null,
    region: null,
    tier: "protected",
    takesCpu: true,
    cores: 1.8,
    memoryGb: 7.2,
    overcommit: 100,
    gpus: [],
  });
  const real = { id: "GPU-1", compute: "ADA_L4", memoryGb: 24, isUsable: true };
  const { gpus } = machinePool({ ...given, gpus: [real], isSimulating: true });
  const ofType = (type: string): number => gpus.filter(({ compute }) => compute === type).length;
  assert.deepEqual([ofType("ADA_L4"), ofType("HOPPER_H100"), ofType("CPU")], [1, 16, 0]);
});
