// The expected price of a replica.
import assert from "node:assert/strict";
import { test } from "node:test";
import { hourlyPrice } from "./price.ts";

const price = { gpuSecond: 0.001, cpuSecond: 0.0001, memoryGbSecond: 0.00001 };
const everywhere = { provider: null, region: null, price };
const wanted = { compute: ["CPU"], cpu: 2, memoryGb: 4, gpuCount: 0, provider: null, region: null };

test("the price of an hour adds up cores, memory and GPUs, of which CPU has none and all others at least one", () => {
  const hardware = [
    { compute: "CPU", ...everywhere },
    { compute: "TURING_T4", ...everywhere },
  ];
  const near = (given: number | undefined, expected: number): void =>
    assert.ok(Math.abs((given ?? 0) - expected) < 1e-9);
  near(hourlyPrice(hardware, { ...wanted, gpuCount: 5 })?.max, (2 * 0.0001 + 4 * 0.00001) * 3600);
  near(
    hourlyPrice(hardware, { ...wanted, compute: ["TURING_T4"] })?.max,
    (0.001 + 2 * 0.0001 + 4 * 0.00001) * 3600,
  );
});

test("several places or compute types give a range, and what is nowhere has no price", () => {
  const dear = { gpuSecond: 1, cpuSecond: 1, memoryGbSecond: 1 };
  const hardware = [
    { compute: "CPU", ...everywhere },
    { compute: "CPU", provider: "aws", region: "us-east-1", price: dear },
  ];
  const both = hourlyPrice(hardware, wanted);
  assert.ok(both !== null && both.min < both.max);
  assert.equal(hourlyPrice(hardware, { ...wanted, provider: "gcp" })?.max, both.min);
  assert.equal(hourlyPrice(hardware, { ...wanted, compute: ["HOPPER_H100"] }), null);
});
