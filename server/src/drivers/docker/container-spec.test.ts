// Which cards a container is given, by everything that NVIDIA's tools look at. Nothing here has run
// on a real card.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Secret } from "#lib/secret.ts";
import { replicaSpec } from "#test/support/replica-spec.ts";
import { containerSpec } from "./container-spec.ts";

const image = { kind: "docker", image: "sha256:0123", user: 10_000, takesRootPath: false };

/** What is asked of the engine, and the variables of the app, by their names. */
function made(gpus: readonly string[]) {
  const spec = replicaSpec({
    artifact: image,
    environment: {
      NVIDIA_VISIBLE_DEVICES: "all",
      CUDA_VISIBLE_DEVICES: new Secret("0,1"),
      OWN: "is kept",
    },
  });
  const { compute, cpuCores, memoryGb, tier } = spec;
  const claim = { pool: "machine", compute, cpuCores, memoryGb, tier, gpus };
  const { Env = [], HostConfig } = containerSpec(spec, {
    claim,
    installationId: "installation",
    network: "network",
    storage: [{ from: "/storage", at: "/persistent-storage" }],
    cores: 8,
    runtime: undefined,
    nameServers: null,
    filesMax: 1024,
    isPublished: false,
  });
  const names = Env.map((line) => line.slice(0, line.indexOf("=")));
  assert.equal(new Set(names).size, names.length, "no variable has two values");
  assert.ok(Env.includes("OWN=is kept"));
  return {
    requests: HostConfig?.DeviceRequests,
    variables: Env.filter((line) => /^(NVIDIA|CUDA)_VISIBLE_DEVICES=/.test(line)).toSorted(),
  };
}

test("a container is given the cards of its claim and no other, whatever the app sets", () => {
  const ids = [
    "GPU-11111111-2222-3333-4444-555555555555",
    "GPU-66666666-7777-8888-9999-000000000000",
  ];
  assert.deepEqual(made(ids), {
    requests: [{ Driver: "nvidia", DeviceIDs: ids, Capabilities: [["gpu"]] }],
    variables: [`CUDA_VISIBLE_DEVICES=${ids.join(",")}`, `NVIDIA_VISIBLE_DEVICES=${ids.join(",")}`],
  });
});

test("a container without a card is given none, also where its GPU is simulated", () => {
  const none = {
    requests: undefined,
    variables: ["CUDA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=void"],
  };
  assert.deepEqual(made([]), none);
  assert.deepEqual(made(["machine/ADA_L4/0"]), none);
});
