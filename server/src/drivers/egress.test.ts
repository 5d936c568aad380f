// Which values of egressCidrs can have their effect on an installation.
import assert from "node:assert/strict";
import { test } from "node:test";
import { egressRefusal, unlimitedRefusal } from "./egress.ts";

const none = { canLimit: true, allowed: [] } as const;
const some = { canLimit: true, allowed: ["10.1.0.0/16", "192.168.1.20"] } as const;
const shared = { canLimit: false, reason: "SLIPWAY_APP_NETWORK is shared" } as const;

test("public ranges, wider ones and an empty list can be kept", () => {
  for (const cidrs of [
    null,
    undefined,
    [],
    ["203.0.113.0/24"],
    ["0.0.0.0/0"],
    ["8.0.0.0/6", "128.0.0.0/1"],
  ]) {
    assert.equal(egressRefusal(none, cidrs), null);
  }
});

test("a private range is refused unless the operator has opened a part of it", () => {
  for (const cidr of [
    "10.0.0.0/8",
    "10.1.0.0/16",
    "10.1.2.3/32",
    "192.168.0.0/16",
    "192.168.1.20/32",
  ]) {
    assert.equal(egressRefusal(some, [cidr]), null);
    assert.equal(
      egressRefusal(none, ["203.0.113.0/24", cidr]),
      `egressCidrs has "${cidr}", but of private networks, apps may reach none here (SLIPWAY_APP_NETWORK_ALLOW).`,
    );
  }
  for (const cidr of [
    "10.2.0.0/16",
    "192.168.1.21/32",
    "172.16.0.0/12",
    "127.0.0.1/32",
    "224.0.0.0/4",
  ]) {
    assert.match(
      egressRefusal(some, [cidr]) ?? "",
      /apps may reach only 10\.1\.0\.0\/16, 192\.168\.1\.20 here \(SLIPWAY_APP_NETWORK_ALLOW\)\.$/,
    );
  }
});

test("metadata addresses and IPv6 are refused, whatever the operator has opened", () => {
  for (const cidr of ["169.254.169.254/32", "169.254.0.0/16", "100.100.100.200/32"]) {
    assert.equal(
      egressRefusal({ canLimit: true, allowed: [cidr] }, [cidr]),
      `egressCidrs has "${cidr}", but that is closed to all apps.`,
    );
  }
  assert.equal(
    egressRefusal(some, ["2001:db8::/32"]),
    'egressCidrs has "2001:db8::/32", but apps have only IPv4 here.',
  );
});

test("nothing can be kept without rules, and no replica starts that needs them", () => {
  const refusal =
    "egressCidrs is set, but what an app reaches cannot be limited here: SLIPWAY_APP_NETWORK is shared. Leave it out (PATCH …/apps/{app}), or ask the operator for networks of apps (docs/guides/isolation.md).";
  for (const egressCidrs of [[], ["203.0.113.0/24"]]) {
    assert.equal(egressRefusal(shared, egressCidrs), refusal);
    assert.equal(unlimitedRefusal(shared, { egressCidrs }), refusal);
  }
  assert.equal(unlimitedRefusal(shared, { egressCidrs: null }), null);
  // The operator has closed a range since: it is closed to the app too, which runs on.
  assert.equal(unlimitedRefusal(none, { egressCidrs: ["10.0.0.0/8"] }), null);
});
