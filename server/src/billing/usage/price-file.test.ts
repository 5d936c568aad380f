// The file of prices: exact prices, versions that go on from each other, pools; and what cannot be
// used is refused with its field, what stands there and what may.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { OperatorFileRefused } from "#lib/operator-file.ts";
import { readPrices } from "./price-file.ts";
import { builtInPrices, rateAt, storageRateAt, type PricedResources } from "./prices.ts";

const types = ["CPU", "HOPPER_H100", "TURING_T4"];
const plain: PricedResources = {
  compute: "HOPPER_H100",
  computeTier: "interruptible",
  provider: null,
  region: null,
  gpuCount: 1,
  coreThousandths: 2_500n,
  gbThousandths: 10_000n,
};
const later = Date.UTC(2026, 11, 1);

describe("prices", () => {
  test("without a file, or in an empty one, are built in: GPU, cores and memory, twice as much on the tier protected", () => {
    for (const prices of [builtInPrices, readPrices("", types)]) {
      // 944 + 2.5 × 6.55 + 10 × 2.22 micro-units.
      assert.equal(rateAt(prices, plain, 0), 982_575_000_000n);
      assert.equal(
        rateAt(prices, { ...plain, computeTier: "protected" }, 0),
        2n * 982_575_000_000n,
      );
      assert.equal(rateAt(prices, { ...plain, compute: "CPU", gpuCount: 0 }, 0), 38_575_000_000n);
      assert.equal(rateAt(prices, { ...plain, compute: "INF2", gpuCount: 1 }, 0), 38_575_000_000n);
    }
  });

  test("are exact to the ninth decimal, as numbers and as texts", () => {
    const prices = readPrices(
      '[[prices]]\ncpu_core = 0.000000001\nmemory_gb = "1.5"\ncompute = { HOPPER_H100 = 6.55e-6 }',
      types,
    );
    assert.equal(prices[0].core, 1n);
    assert.equal(prices[0].gb, 1_500_000_000n);
    assert.equal(prices[0].compute.get("HOPPER_H100"), 6_550n);
    assert.equal(
      prices[0].compute.get("TURING_T4"),
      164_000n,
      "what is left out stays as it is built in",
    );
  });

  test("change at the beginning of an hour, and what a version leaves out stays as it was before", () => {
    const text = `[[prices]]\ncpu_core = 0.00001\n\n[[prices]]\nvalid_from = 2026-12-01T00:00:00Z\nprotected_multiplier = 1.125\n`;
    const prices = readPrices(text, types);
    const cores = { ...plain, gpuCount: 0, gbThousandths: 0n, computeTier: "protected" };
    assert.equal(rateAt(prices, cores, later - 1), 2_500n * 10_000n * 2_000n);
    assert.equal(rateAt(prices, cores, later), 2_500n * 10_000n * 1_125n);
  });

  test("of storage are for a GB and month beyond what is free, which a version may change", () => {
    const text = `[[prices]]\nstorage_gb_month = 0.04\n\n[[prices]]\nvalid_from = 2026-12-01T00:00:00Z\nstorage_free_gb = 0.5\n`;
    const rate = (atMs: number, gb = 101_000n): bigint =>
      storageRateAt(readPrices(text, types), gb, atMs);
    assert.equal(
      rate(later - 1),
      (40_000_000_000_000n + 1_296_000n) / 2_592_000n,
      "for a second of November",
    );
    assert.equal(
      rate(later),
      (100_500n * 40_000_000_000n + 1_339_200n) / 2_678_400n,
      "for a second of December",
    );
    assert.deepEqual([rate(later - 1, 100_000n), rate(later, 500n)], [0n, 0n]);
    assert.equal(storageRateAt(builtInPrices, 101_000n, later), 18_667_861n);
  });

  test("of a region win over those of its provider, and these over the general ones, price by price", () => {
    const text = `[[prices]]
[[prices.pools]]
provider = "aws"
cpu_core = 0.001
memory_gb = 0
[[prices.pools]]
provider = "aws"
region = "eu-1"
compute = { HOPPER_H100 = 0.01 }
cpu_core = 0.002
`;
    const prices = readPrices(text, types);
    const rate = (provider: string | null, region: string | null): bigint =>
      rateAt(prices, { ...plain, provider, region }, 0);
    assert.equal(rate("aws", "eu-1"), (10_000_000n + 5_000_000n) * 1_000_000n);
    assert.equal(rate("aws", "us-1"), (944_000n + 2_500_000n) * 1_000_000n);
    assert.equal(rate("aws", null), rate("aws", "us-1"));
    assert.equal(rate("other", "eu-1"), rate(null, null));
  });
});

describe("a file that cannot be used", () => {
  const price = "a price per second from 0 to 1000 with at most 9 decimals.";
  const cases: readonly (readonly [string, string])[] = [
    ["prices = 3", "prices is 3, but must be a list of tables, each headed [[prices]]."],
    ["[[prise]]", "prise is unknown; did you mean prices?"],
    ["[[prices]]\ncpu_cores = 1", "prices[0].cpu_cores is unknown; did you mean cpu_core?"],
    ["[[prices]]\ncpu_core = -1", `prices[0].cpu_core is -1, but must be ${price}`],
    ["[[prices]]\ncpu_core = 0.0000000001", `prices[0].cpu_core is 1e-10, but must be ${price}`],
    ["[[prices]]\ncpu_core = 1000.1", `prices[0].cpu_core is 1000.1, but must be ${price}`],
    ["[[prices]]\ncpu_core = nan", `prices[0].cpu_core is NaN, but must be ${price}`],
    ["[[prices]]\nmemory_gb = true", `prices[0].memory_gb is true, but must be ${price}`],
    ["[[prices]]\nmemory_gb = '1,5'", `prices[0].memory_gb is "1,5", but must be ${price}`],
    [
      "[[prices]]\ncompute = { H100 = 1 }",
      "prices[0].compute.H100 is unknown; allowed: CPU, HOPPER_H100, TURING_T4.",
    ],
    [
      "[[prices]]\nprotected_multiplier = 1.0001",
      "prices[0].protected_multiplier is 1.0001, but must be a number from 0 to 1000 with at most 3 decimals.",
    ],
    [
      "[[prices]]\nstorage_gb_month = -0.1",
      "prices[0].storage_gb_month is -0.1, but must be a price per month from 0 to 1000 with at most 9 decimals.",
    ],
    [
      "[[prices]]\nstorage_free_gb = 1000000.001",
      "prices[0].storage_free_gb is 1000000.001, but must be a number of GB from 0 to 1000000 with at most 3 decimals.",
    ],
    [
      "[[prices]]\nvalid_from = 2026-01-01T00:00:00Z",
      "prices[0].valid_from is 2026-01-01T00:00:00.000Z, but must be left out: the first prices are valid from the beginning.",
    ],
    [
      "[[prices]]\n[[prices]]",
      "prices[1].valid_from is missing, but must be a whole hour with its zone, of the form 2026-01-31T00:00:00Z.",
    ],
    [
      "[[prices]]\n[[prices]]\nvalid_from = 2026-01-01",
      "prices[1].valid_from is 2026-01-01, but must be a whole hour with its zone, of the form 2026-01-31T00:00:00Z.",
    ],
    [
      "[[prices]]\n[[prices]]\nvalid_from = 2026-01-01T00:30:00Z",
      "prices[1].valid_from is 2026-01-01T00:30:00.000Z, but must be a whole hour with its zone, of the form 2026-01-31T00:00:00Z.",
    ],
    [
      "[[prices]]\n[[prices]]\nvalid_from = 2026-02-01T00:00:00Z\n[[prices]]\nvalid_from = 2026-01-01T00:00:00Z",
      "prices[2].valid_from is 2026-01-01T00:00:00.000Z, but must be later than that of the previous prices.",
    ],
    [
      "[[prices]]\n[[prices.pools]]\nregion = 'x'",
      "prices[0].pools[0].provider is missing, but must be the name of a provider.",
    ],
    [
      "[[prices]]\n[[prices.pools]]\nprovider = 'a'\n[[prices.pools]]\nprovider = 'a'",
      'prices[0].pools[1] is "a/", but must be a pool that is listed only once.',
    ],
    ["x =", "line 1, column 4: it is not valid TOML: "],
  ];
  for (const [text, message] of cases) {
    test(`says: ${message.slice(0, 70)}`, () => {
      assert.throws(
        () => readPrices(text, types),
        (error: unknown) =>
          error instanceof OperatorFileRefused && error.message.startsWith(message),
        message,
      );
    });
  }
});
