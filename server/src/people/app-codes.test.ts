// Codes are those of the standard, and good for a minute and a half.
import assert from "node:assert/strict";
import { test } from "node:test";
import { appCodeTime, appUri, newBackupCodes } from "./app-codes.ts";

/** RFC 6238, appendix B, as codes of six digits. */
const secret = "12345678901234567890";
const vectors: readonly (readonly [seconds: number, code: string])[] = [
  [59, "287082"],
  [1_111_111_109, "081804"],
  [1_111_111_111, "050471"],
  [1_234_567_890, "005924"],
  [2_000_000_000, "279037"],
  [20_000_000_000, "353130"],
];

test("the codes of the standard are right at their time and one step beside it, and at no other", () => {
  for (const [seconds, code] of vectors) {
    for (const [steps, isRight] of [
      [-2, false],
      [-1, true],
      [0, true],
      [1, true],
      [2, false],
    ] as const) {
      const time = isRight ? Math.floor(seconds / 30) * 30_000 : null;
      assert.equal(
        appCodeTime(secret, code, (seconds + steps * 30) * 1000),
        time,
        `${code} ${steps}`,
      );
    }
    for (const other of ["", "000000", code.slice(1), `${code}0`, ` ${code}`]) {
      assert.equal(appCodeTime(secret, other, seconds * 1000), null, other);
    }
  }
});

test("apps read the secret in base 32, without padding", () => {
  assert.equal(
    appUri(secret, "ada+1@example.test"),
    "otpauth://totp/Slipway:ada%2B1%40example.test?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ&issuer=Slipway&digits=6&period=30",
  );
  assert.match(appUri("abc", "a@b"), /secret=MFRGG&/);
});

test("backup codes are ten that differ, in a form that is no code of the app", () => {
  const codes = newBackupCodes();
  assert.equal(new Set(codes).size, 10);
  for (const code of codes) assert.match(code, /^[A-Za-z0-9]{5}-[A-Za-z0-9]{5}$/);
});
