// What a rotation does to the tokens before: whatever the order of rotations, no more than two are
// ever valid.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Fault } from "#lib/fault.ts";
import type { TokenId } from "#lib/ids.ts";
import { must } from "#lib/assert.ts";
import { isActive } from "./account-view.ts";
import { planRotation } from "./rotation.ts";

type Token = { id: TokenId; created_at: Date; expires_at: Date | null; revoked_at: Date | null };

const hourMs = 3_600_000;

function token(number: number, expiresAtMs: number | null): Token {
  const id = `token-${number}` as TokenId;
  const expires_at = expiresAtMs === null ? null : new Date(expiresAtMs);
  return { id, created_at: new Date(number), expires_at, revoked_at: null };
}

/** The tokens after the rotation, newest first; null when it was refused. */
function rotate(tokens: readonly Token[], overlapMs: number, nowMs: number): Token[] | null {
  const standing = tokens.filter((one) => one.revoked_at === null);
  const newest = must(standing[0], "there is a token");
  const plan = planRotation({ tokens: standing, newest, wantedEnd: undefined, overlapMs, nowMs });
  if (plan instanceof Fault) return null;
  const before = tokens.map((one) => {
    if (plan.revoked.includes(one.id)) return { ...one, revoked_at: new Date(nowMs) };
    if (!plan.shortened.includes(one.id)) return one;
    const endMs = Math.min(
      one.expires_at?.getTime() ?? Number.POSITIVE_INFINITY,
      plan.overlapEndsAtMs,
    );
    return { ...one, expires_at: new Date(endMs) };
  });
  const made = { ...token(nowMs, null), expires_at: plan.expiresAt };
  return [made, ...before];
}

test("at most two tokens are valid at any time, and the newest always is", () => {
  const step = fc.record({
    waitMs: fc.nat(3 * hourMs),
    overlapMs: fc.oneof(fc.constant(0), fc.nat(2 * hourMs)),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), (steps) => {
      let nowMs = 0;
      let tokens = [token(0, null)];
      for (const { waitMs, overlapMs } of steps) {
        nowMs += waitMs + 1;
        const activeBefore = tokens.filter((one) => isActive(one, nowMs)).length;
        const next = rotate(tokens, overlapMs, nowMs);
        assert.equal(next === null, activeBefore === 2 && overlapMs > 0);
        if (next === null) continue;
        tokens = next;
        const active = tokens.filter((one) => isActive(one, nowMs));
        assert.equal(active.length, overlapMs === 0 ? 1 : 2);
        assert.equal(active[0]?.id, tokens[0]?.id);
        assert.ok(active.slice(1).every((one) => !isActive(one, nowMs + overlapMs)));
      }
    }),
  );
});

test("a new token is valid as long as the one before was to be, unless an end is chosen", () => {
  const newest = token(0, 10 * hourMs);
  const given = { tokens: [newest], newest, overlapMs: hourMs, nowMs: 2 * hourMs };
  const plan = planRotation({ ...given, wantedEnd: undefined });
  assert.ok(!(plan instanceof Fault));
  assert.equal(plan.expiresAt?.getTime(), 12 * hourMs);
  const endless = planRotation({ ...given, wantedEnd: null });
  assert.ok(!(endless instanceof Fault));
  assert.equal(endless.expiresAt, null);
  const chosen = planRotation({ ...given, wantedEnd: new Date(5 * hourMs) });
  assert.ok(!(chosen instanceof Fault));
  assert.equal(chosen.expiresAt?.getTime(), 5 * hourMs);
});
