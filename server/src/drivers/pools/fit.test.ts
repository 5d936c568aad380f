// What an app is told that fits into no pool: by whoever asks for it, and by its owner later.
import assert from "node:assert/strict";
import { test } from "node:test";
import { whyNoRuntime } from "#drivers/container-runtimes.ts";
import { egressRefusal } from "#drivers/egress.ts";
import { whyNever } from "./fit.ts";
import type { Pool } from "./pool.ts";

function pool(given: Partial<Pool> & { readonly cards?: number } = {}): Pool {
  const { cards = 0, ...rest } = given;
  const gpus = Array.from({ length: cards }, (_, index) => ({
    ...{ id: `GPU-${index}`, compute: "ADA_L4", memoryGb: 24, isUsable: true },
  }));
  return {
    ...{ name: "rack", provider: null, region: "eu-1", tier: "protected", takesCpu: true },
    ...{ cores: 8, memoryGb: 16, overcommit: 1, gpus, ...rest },
  };
}

const gpu = { compute: ["ADA_L4"], gpuCount: 1, cpu: 2, memory: 4 };

test("who asks for an app corrects the request; an owner changes the app, which a build of it need not follow", () => {
  const runtimes = { v1: "runc", v2: "runsc", present: ["runc"] };
  const shared = { canLimit: false, reason: "networks are shared" } as const;
  const refusals = [
    (advised?: "creator" | "owner") => whyNever([pool()], gpu, advised),
    (advised?: "creator" | "owner") => whyNever([pool({ cards: 1 })], { ...gpu, gpuCount: 2 }, advised),
    (advised?: "creator" | "owner") => whyNever([pool({ cards: 1 })], { ...gpu, region: "us-1" }, advised),
    (advised?: "creator" | "owner") => whyNoRuntime(runtimes, "v2", advised),
    (advised?: "creator" | "owner") => egressRefusal(shared, [], advised),
  ];
  for (const refusal of refusals) {
    const [toCreator, toOwner] = [refusal("creator") ?? "", refusal() ?? ""];
    assert.match(toOwner, /^.+ \(PATCH …\/apps\/\{app\}\)[.,]/);
    assert.equal(toCreator, toOwner.replace(" (PATCH …/apps/{app})", ""));
    assert.doesNotMatch(toOwner, /builds it again/);
  }
});
