// What an app is told that fits into no pool: by whoever asks for it, and by its owner later.
import assert from "node:assert/strict";
import { test } from "node:test";
import { whyNoRuntime } from "#drivers/container-runtimes.ts";
import { egressRefusal } from "#drivers/egress.ts";
import { whyNever } from "./fit.ts";
import type { Pool } from "./pool.ts";

function pool(given: Partial<Pool> & { readonly cards?: number } = {}): Pool {
  const { cards = 0, ...rest } = given;
  const all = { compute: "ADA_L4", memoryGb: 24, count: cards, usable: cards };
  return {
    name: "rack",
    provider: null,
    region: "eu-1",
    tier: "protected",
    takesCpu: true,
    cores: 8,
    memoryGb: 16,
    overcommit: 1,
    gpus: cards === 0 ? [] : [all],
    ...rest,
  };
}

const gpu = { compute: ["ADA_L4"], gpuCount: 1, cpu: 2, memory: 4 };

test("who asks for an app corrects the request; an owner changes the app, which a build of it need not follow", () => {
  const runtimes = { v1: "runc", v2: "runsc", present: ["runc"] };
  const shared = { canLimit: false, reason: "networks are shared" } as const;
  const refusals = [
    (advised?: "creator" | "owner") => whyNever([pool()], gpu, advised),
    (advised?: "creator" | "owner") =>
      whyNever([pool({ cards: 1 })], { ...gpu, gpuCount: 2 }, advised),
    (advised?: "creator" | "owner") =>
      whyNever([pool({ cards: 1 })], { ...gpu, region: "us-1" }, advised),
    (advised?: "creator" | "owner") => whyNoRuntime(runtimes, "v2", advised),
    (advised?: "creator" | "owner") => egressRefusal(shared, [], advised),
  ];
  for (const refusal of refusals) {
    const toCreator = refusal("creator") ?? "";
    const toOwner = refusal() ?? "";
    assert.match(toOwner, /^.+ \(PATCH …\/apps\/\{app\}\)[.,]/);
    assert.equal(toCreator, toOwner.replace(" (PATCH …/apps/{app})", ""));
    assert.doesNotMatch(toOwner, /builds it again/);
  }
});

test("a refusal names each size once, the largest first, and how many others there are", () => {
  const tooLarge = { ...gpu, gpuCount: 16 };
  const atMost = (
    pools: readonly Pool[],
    wish: Parameters<typeof whyNever>[1] = tooLarge,
  ): string | undefined => /at most (.*) in one place/.exec(whyNever(pools, wish) ?? "")?.[1];
  const racks = Array.from({ length: 20 }, (_, index) => pool({ name: `rack-${index}`, cards: 1 }));
  assert.equal(atMost(racks), "1 GPU, 8 cores and 16 GB");
  const larger = pool({ name: "large", cards: 4, cores: 16 });
  assert.equal(
    atMost([...racks, larger, pool({ name: "other", cards: 4, cores: 16 })]),
    "4 GPUs, 16 cores and 16 GB",
  );
  const roomy = pool({ name: "roomy", cards: 1, memoryGb: 512 });
  assert.equal(
    atMost([roomy, ...racks, larger]),
    "4 GPUs, 16 cores and 16 GB, or 1 GPU, 8 cores and 512 GB",
  );
  const mixed = [1, 2, 3, 4, 5].map((cards) =>
    pool({ name: `mixed-${cards}`, cards, cores: 64 / cards }),
  );
  assert.equal(
    atMost([...racks, ...mixed]),
    "5 GPUs, 12.8 cores and 16 GB, or 4 GPUs, 16 cores and 16 GB, or 3 GPUs, 21.333 cores and 16 GB, or 2 other sizes",
  );
  const slow = mixed.map((one, index) => ({ ...one, memoryGb: 2 ** index }));
  assert.equal(
    atMost(slow.slice(0, 4), { compute: ["CPU"], cpu: 100, memory: 1 }),
    "64 cores and 1 GB, or 32 cores and 2 GB, or 21.333 cores and 4 GB, or 1 other size",
  );
});

test("a refusal is of what was asked, where the rest is not known yet", () => {
  const pools = [pool({ cards: 1, cores: 2, memoryGb: 4 })];
  const most =
    "but the platform has at most 1 GPU, 2 cores and 4 GB in one place. Request less: cpu, memory, gpuCount";
  assert.ok(
    whyNever(pools, { memory: 10 })?.startsWith(`A replica of the app needs 10 GB, ${most}`),
  );
  assert.ok(
    whyNever(pools, { memory: 10, cpu: 1 })?.startsWith(
      `A replica of the app needs 1 cores and 10 GB, ${most}`,
    ),
  );
  assert.match(
    whyNever(pools, { region: "us-1" }) ?? "",
    /^The app requests region us-1, but the platform has only any provider, region eu-1, computeTier protected\./,
  );
});
