// What the records of DNS say about a claim, and what follows.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  checkedClaim,
  failsAtMs,
  verdictOn,
  type DnsRecords,
  type DomainClaim,
} from "./domain-proof.ts";

const nowMs = Date.UTC(2027, 0, 1);
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const none: DnsRecords = { cnames: [], texts: [] };
const silent: DnsRecords = { cnames: null, texts: null };
const appHost = "shop-p-0123abcd.apps.example.net";
const pending: DomainClaim = {
  name: "shop.example.org",
  token: "aa11",
  appHost,
  state: "Pending",
  pendingSinceMs: nowMs,
  missingSinceMs: null,
};
const proven: DomainClaim = { ...pending, state: "Validated", pendingSinceMs: nowMs - 90 * dayMs };
const other = { name: pending.name, token: "bb22", appHost: "x-p-99999999.apps.example.net" };
const byText: DnsRecords = { cnames: [], texts: ["other", pending.token] };

function check(claim: DomainClaim, records: DnsRecords, holder: typeof other | null = null) {
  return checkedClaim(claim, { holder, records, nowMs });
}

test("a CNAME to the app's own host name proves, and so does the token; nothing else does", () => {
  const verdicts = (records: Partial<DnsRecords>, claim = pending) =>
    verdictOn(claim, { ...none, ...records });
  assert.equal(verdicts({ cnames: [appHost] }), "proven");
  assert.equal(verdicts({ texts: [pending.token] }), "proven");
  assert.equal(verdicts({ cnames: ["slipway.example.org"] }), "missing");
  assert.equal(verdicts({ cnames: ["x-p-99999999.apps.example.net"] }), "missing");
  assert.equal(verdicts({ texts: ["bb22", "aa11 "] }), "missing");
  assert.equal(verdicts({ cnames: null }), "unknown");
  assert.equal(verdicts({ cnames: null, texts: [pending.token] }), "proven");
  // Without host names of apps, null must not be taken for a CNAME that is missing.
  assert.equal(verdicts({ cnames: [] }, { ...pending, appHost: null }), "missing");
});

test("a pending name is checked often at first, then every half hour, and fails after two days", () => {
  const after = (ageMs: number) => check({ ...pending, pendingSinceMs: nowMs - ageMs }, none);
  for (const [ageMs, waitMs] of [
    [0, minuteMs],
    [5 * minuteMs, 5 * minuteMs],
    [hourMs, 30 * minuteMs],
    [2 * dayMs - 1, 30 * minuteMs],
  ] as const) {
    assert.equal(after(ageMs).state, "Pending");
    assert.equal(after(ageMs).checkAtMs, nowMs + waitMs);
  }
  const failed = after(2 * dayMs);
  assert.deepEqual([failed.state, failed.checkAtMs], ["Failed", null]);
  assert.match(failed.found ?? "", /shop\.example\.org has no CNAME record; .* no TXT record/);
  assert.equal(failsAtMs(pending), nowMs + 2 * dayMs);
  const unanswered = check({ ...pending, pendingSinceMs: nowMs - 2 * dayMs }, silent);
  assert.equal(unanswered.state, "Failed");
  assert.match(unanswered.found ?? "", /DNS did not answer/);
});

test("a proven name is checked daily, and is kept for a week when its proof is gone", () => {
  assert.equal(check(proven, byText).checkAtMs, nowMs + dayMs);
  const missing = check(proven, none);
  assert.deepEqual(
    [missing.state, missing.missingSinceMs, missing.checkAtMs],
    ["Validated", nowMs, nowMs + hourMs],
  );
  const since = (ageMs: number): DomainClaim => ({ ...proven, missingSinceMs: nowMs - ageMs });
  assert.equal(check(since(7 * dayMs - 1), none).state, "Validated");
  assert.equal(check(since(7 * dayMs), none).state, "Failed");
  assert.equal(failsAtMs(since(dayMs)), nowMs + 6 * dayMs);
  const back = check(since(6 * dayMs), byText);
  assert.deepEqual([back.state, back.missingSinceMs, back.found], ["Validated", null, null]);
});

test("a proven name stays proven as long as DNS does not answer", () => {
  const unanswered = check({ ...proven, missingSinceMs: nowMs - 30 * dayMs }, silent);
  assert.equal(unanswered.state, "Validated");
  assert.equal(check(proven, silent).missingSinceMs, null);
});

test("a name passes to another claim only when that one is proven and the holder's proof is gone", () => {
  const taken = check(pending, byText, other);
  assert.deepEqual([taken.state, taken.isTakenOver], ["Validated", true]);
  for (const records of [
    { cnames: [other.appHost], texts: [pending.token] },
    { cnames: [], texts: [other.token, pending.token] },
    // The holder's record may be there.
    { cnames: null, texts: [pending.token] },
  ]) {
    const held = check(pending, records, other);
    assert.deepEqual([held.state, held.isTakenOver], ["Pending", false]);
    assert.match(held.found ?? "", /belongs to another app/);
  }
  const unproven = check(pending, none, other);
  assert.deepEqual([unproven.state, unproven.isTakenOver], ["Pending", false]);
});

test("what was found instead is said in one line, of bounded length", () => {
  const records = { cnames: ["elsewhere.example"], texts: [`x\n${"y".repeat(5000)}`, "z"] };
  const { found } = check(pending, records);
  assert.match(found ?? "", /^the CNAME record of shop\.example\.org is "elsewhere\.example"; /);
  assert.match(
    found ?? "",
    /TXT record of _slipway-challenge\.shop\.example\.org is "x y+" and 1 more$/,
  );
  assert.ok((found ?? "").length < 500);
});
