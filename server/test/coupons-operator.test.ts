// The operator's side of coupons over the wire: making, listing, ending, and which fields go
// together.
import assert from "node:assert/strict";
import { test } from "node:test";
import { faultAnswer } from "@slipway/contract/answers.ts";
import { operatorCoupon, operatorCouponPage } from "@slipway/contract/billing-answers.ts";
import { roles } from "@slipway/contract/words.ts";
import { auditOf, couponStage } from "./coupons-stage.ts";

const path = "/v2/operator/coupons";

test("a coupon is answered with all its fields, and what is left out is null or has its default", async (t) => {
  const { api, operator } = await couponStage(t);
  const body = {
    code: "SAVE",
    name: "Save",
    coupon_type: "percentage",
    percentage_rate: 33.33333,
    amount_cents: null,
  };
  const beganMs = Date.now();
  const made = await api.call("POST", path, { token: operator, body });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const { created_at: createdAt, ...rest } = operatorCoupon.parse(made.body);
  assert.ok(Date.parse(createdAt) >= beganMs && Date.parse(createdAt) <= Date.now());
  assert.deepEqual(rest, {
    code: "SAVE",
    name: "Save",
    coupon_type: "percentage",
    amount_cents: null,
    amount_currency: null,
    percentage_rate: 33.33333,
    frequency: "once",
    frequency_duration: null,
    expiration_at: null,
    reusable: false,
    max_uses: null,
    plans: null,
    uses: 0,
    ended_at: null,
  });
});

test("fields that do not go together are 400, and the field is named", async (t) => {
  const { api, operator } = await couponStage(t);
  const fixed = {
    code: "C",
    name: "C",
    coupon_type: "fixed_amount",
    amount_cents: 100,
    amount_currency: "USD",
  };
  const part = { code: "C", name: "C", coupon_type: "percentage", percentage_rate: 10 };
  const wrong: readonly (readonly [field: string, body: object])[] = [
    ["amount_cents", { ...fixed, amount_cents: undefined }],
    ["amount_cents", { ...fixed, amount_cents: 0 }],
    ["amount_cents", { ...fixed, amount_cents: 1.5 }],
    ["amount_cents", { ...fixed, amount_cents: "100" }],
    ["amount_cents", { ...fixed, amount_cents: 1e15 }],
    ["amount_cents", { ...part, amount_cents: 100 }],
    ["amount_currency", { ...fixed, amount_currency: undefined }],
    ["amount_currency", { ...fixed, amount_currency: "usd" }],
    ["amount_currency", { ...fixed, amount_currency: "XYZ" }],
    ["amount_currency", { ...part, amount_currency: "USD" }],
    ["percentage_rate", { ...fixed, percentage_rate: 10 }],
    ["percentage_rate", { ...part, percentage_rate: undefined }],
    ["percentage_rate", { ...part, percentage_rate: 0 }],
    ["percentage_rate", { ...part, percentage_rate: 100.1 }],
    ["percentage_rate", { ...part, percentage_rate: 0.123456 }],
    ["frequency_duration", { ...part, frequency: "recurring" }],
    ["frequency_duration", { ...part, frequency: "recurring", frequency_duration: 0 }],
    ["frequency_duration", { ...part, frequency: "once", frequency_duration: 2 }],
    ["frequency_duration", { ...part, frequency: "forever", frequency_duration: 2 }],
    ["frequency", { ...part, frequency: "weekly" }],
    ["coupon_type", { ...part, coupon_type: undefined }],
    ["coupon_type", { ...part, coupon_type: "gift" }],
    ["expiration_at", { ...part, expiration_at: "tomorrow" }],
    ["expiration_at", { ...part, expiration_at: "2026-13-40T00:00:00Z" }],
    ["reusable", { ...part, reusable: "yes" }],
    ["max_uses", { ...part, max_uses: 0 }],
    ["code", { ...part, code: undefined }],
    ["code", { ...part, code: "two words" }],
    ["name", { ...part, name: " " }],
    ["percent", { ...part, percent: 10 }],
  ];
  for (const [field, body] of wrong) {
    const answer = await api.call("POST", path, { token: operator, body });
    assert.equal(answer.status, 400, JSON.stringify(body));
    const named = faultAnswer.parse(answer.body).message.match(/^"?(\w+)/)?.[1];
    assert.equal(named, field, answer.body.message);
  }
  assert.deepEqual((await api.call("GET", path, { token: operator })).body, { items: [] });
});

test("a code in use is 409; once its coupon has ended it is free again, and for others a new coupon", async (t) => {
  const { api, operator, make, apply } = await couponStage(t);
  await make();
  const again = await api.call("POST", path, {
    token: operator,
    body: { code: "WELCOME", name: "Other", coupon_type: "percentage", percentage_rate: 5 },
  });
  assert.equal(again.status, 409);
  assert.equal((await apply("WELCOME")).status, 200);
  const ended = await api.call("DELETE", `${path}/WELCOME`, { token: operator });
  assert.equal(ended.status, 200);
  assert.notEqual(operatorCoupon.parse(ended.body).ended_at, null);
  for (const code of ["WELCOME", "NEVER-WAS", "two%20words", "%00"]) {
    const gone = await api.call("DELETE", `${path}/${code}`, { token: operator });
    assert.equal(gone.status, 404, code);
    faultAnswer.parse(gone.body);
  }
  await make({ amount_cents: 1 });
  assert.equal((await apply("WELCOME")).body.coupon.amount_cents, 1);
  const changes = (await auditOf(api)).filter(({ outcome }) => outcome === "success");
  assert.deepEqual(
    changes.map(({ action }) => action),
    ["coupon.create", "coupon.apply", "coupon.end", "coupon.create", "coupon.apply"],
  );
});

test("coupons are listed newest first, those that have ended too, page by page, each once", async (t) => {
  const { api, operator, make } = await couponStage(t);
  for (let number = 1; number <= 5; number++) await make({ code: `C-${number}` });
  await api.call("DELETE", `${path}/C-2`, { token: operator });
  const codes: string[] = [];
  let query = "?pageSize=2";
  for (let pages = 0; pages < 3; pages++) {
    const answer = await api.call("GET", `${path}${query}`, { token: operator });
    const page = operatorCouponPage.parse(answer.body);
    codes.push(...page.items.map(({ code }) => code));
    // One that is made meanwhile belongs before the first page and moves nothing.
    await make({ code: `LATER-${pages}` });
    assert.equal(page.nextToken === undefined, pages === 2);
    query = `?pageSize=2&nextToken=${page.nextToken}`;
  }
  assert.deepEqual(codes, ["C-5", "C-4", "C-3", "C-2", "C-1"]);
  for (const wrong of ["pageSize=0", "pageSize=201", "nextToken=x", "nextToken=-1"]) {
    assert.equal(
      (await api.call("GET", `${path}?${wrong}`, { token: operator })).status,
      400,
      wrong,
    );
  }
});

test("only an operator may: no token is 401, a project's is 403, whatever its role, and the attempt is recorded", async (t) => {
  const { api } = await couponStage(t);
  const body = { code: "MINE", name: "Mine", coupon_type: "percentage", percentage_rate: 100 };
  const calls = [
    ["POST", path],
    ["GET", path],
    ["DELETE", `${path}/MINE`],
  ] as const;
  for (const [method, at] of calls) {
    const given = method === "POST" ? { body } : {};
    assert.equal((await api.call(method, at, { ...given, token: null })).status, 401);
    for (const role of roles) {
      const token = await api.issue({ kind: "service_account", role });
      const answer = await api.call(method, at, { ...given, token });
      assert.equal(answer.status, 403, `${method} as ${role}`);
      faultAnswer.parse(answer.body);
    }
  }
  const refused = await auditOf(api);
  assert.deepEqual(
    new Set(
      refused.map(({ action, outcome, project_id: project }) => `${action} ${outcome} ${project}`),
    ),
    new Set([`coupon.create failure ${api.projectId}`, `coupon.end failure ${api.projectId}`]),
  );
});
