// The firewall rules of this platform beside other versions of nft on the same machine, such as the
// one in the platform's image.
import assert from "node:assert/strict";
import { test } from "node:test";
import { firewallRules } from "./app-firewall.ts";
import { segmentRules } from "./docker/build-segment-rules.ts";

test("sets are made so that nft 1.0.6 can list what nft 1.1 has set", () => {
  const apps = firewallRules({
    installation: "abcd",
    links: { prefix: "slp", range: "10.0.0.0/16" },
    allowed: ["10.1.0.0/16"],
    nameServers: ["192.0.2.1"],
    egress: new Map([["slpabcd1", ["192.0.2.0/24"]]]),
    buildBridge: "slpabcdb",
    platform: { host: "127.0.0.1", ports: [7070] },
  });
  const builds = segmentRules({
    table: "slipway_t",
    ranges: ["10.9.0.0/24"],
    steps: [{ name: "veth1", mac: "02:00:00:00:00:01", addresses: ["10.9.0.2"] }],
    others: ["veth9"],
  });
  for (const rules of [apps, builds]) {
    const sets = [...rules.matchAll(/^ (?:set|map) \w+ \{\n\s*(\w+)/gm)].map(([, word]) => word);
    assert.ok(sets.length > 1);
    // By "type", 1.1 stores what 1.0.6 crashes on.
    assert.deepEqual(new Set(sets), new Set(["typeof"]));
  }
});
