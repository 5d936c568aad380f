// Applying a coupon, held to the published interface sentence by sentence, over a real socket and
// on a real database.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { faultAnswer } from "@slipway/contract/answers.ts";
import type { ProjectId } from "#lib/ids.ts";
import { auditOf, couponStage, ledgerOf } from "./coupons-stage.ts";
import { VirtualClock } from "./support/virtual-clock.ts";

describe("POST …/billing/coupons/apply", () => {
  test("answers 200 with the coupon, a message and success; a fixed coupon that does not expire has six fields and its balance", async (t) => {
    const { api, make, apply } = await couponStage(t);
    await make();
    const answer = await apply("WELCOME");
    assert.equal(answer.status, 200);
    assert.deepEqual(Object.keys(answer.body).sort(), ["coupon", "message", "success"]);
    assert.equal(answer.body.success, true);
    assert.ok(answer.body.message.length > 0);
    assert.deepEqual(answer.body.coupon, {
      code: "WELCOME",
      name: "Welcome",
      amount_cents: 10_000,
      amount_currency: "USD",
      frequency: "once",
      amount_cents_balance: 10_000,
    });
    const granted = {
      code: "WELCOME",
      kind: "coupon.grant",
      project: api.projectId,
      currency: "USD",
    };
    assert.deepEqual(await ledgerOf(api), [
      { account: "promotions", micros: "100000000", ...granted },
      { account: "coupon_credit", micros: "-100000000", ...granted },
    ]);
  });

  test("expiration_at is a timestamp where the coupon expires, and percentage_rate a number where it is a percentage", async (t) => {
    const { api, make, apply } = await couponStage(t);
    const expiry = { expiration_at: "2099-12-31T23:59:59.5+01:00" };
    const none = { amount_cents: undefined, amount_currency: undefined };
    await make({
      code: "P",
      coupon_type: "percentage",
      percentage_rate: 12.5,
      frequency: "forever",
      ...none,
      ...expiry,
    });
    assert.deepEqual((await apply("P")).body.coupon, {
      code: "P",
      name: "Welcome",
      amount_cents: 0,
      amount_currency: "USD",
      frequency: "forever",
      expiration_at: "2099-12-31T22:59:59.500Z",
      percentage_rate: 12.5,
      amount_cents_balance: 0,
    });
    await make({
      code: "R",
      frequency: "recurring",
      frequency_duration: 3,
      amount_cents: 2_500,
      ...expiry,
    });
    const { coupon } = (await apply("R")).body;
    assert.equal(coupon.frequency, "recurring");
    assert.equal(coupon.amount_cents_balance, 2_500);
    assert.ok(!("percentage_rate" in coupon));
    assert.deepEqual(await ledgerOf(api), [], "they move money only when there is usage");
  });

  test("an unknown code and an ended one are 404, with the same words", async (t) => {
    const { api, operator, make, apply } = await couponStage(t);
    await make();
    assert.equal(
      (await api.call("DELETE", "/v2/operator/coupons/WELCOME", { token: operator })).status,
      200,
    );
    const ended = await apply("WELCOME");
    const unknown = await apply("NEVER-WAS");
    assert.deepEqual([ended.status, unknown.status], [404, 404]);
    assert.deepEqual(ended.body, unknown.body);
    assert.equal((await apply("welcome")).status, 404, "upper and lower case differ");
  });

  test("an expired code is 422, from the instant that it expires at", async (t) => {
    const clock = new VirtualClock();
    const { make, apply, api } = await couponStage(t, { clock });
    const at = new Date(clock.now() + 5_000).toISOString();
    await make({ reusable: true, expiration_at: at });
    await clock.advance(4_999);
    assert.equal((await apply("WELCOME")).status, 200);
    await clock.advance(1);
    const expired = await apply("WELCOME");
    assert.equal(expired.status, 422);
    assert.ok(expired.body.message.includes(at));
    assert.equal((await ledgerOf(api)).length, 2, "only the first was granted");
  });

  test("applied already: 409 unless the coupon is reusable, and other projects are not concerned", async (t) => {
    const { api, make, apply, operator } = await couponStage(t);
    await make();
    await make({ code: "AGAIN", reusable: true });
    assert.deepEqual(
      [(await apply("WELCOME")).status, (await apply("WELCOME")).status],
      [200, 409],
    );
    assert.deepEqual([(await apply("AGAIN")).status, (await apply("AGAIN")).status], [200, 200]);
    const other = await api.addProject("other");
    assert.equal((await apply("WELCOME", { projectId: other, token: operator })).status, 200);
  });

  test("a coupon in another currency than the billing account's is 422, and says both", async (t) => {
    const { api, make, apply } = await couponStage(t);
    await make({ amount_currency: "EUR" });
    const answer = await apply("WELCOME");
    assert.equal(answer.status, 422);
    assert.match(answer.body.message, /EUR.*USD/);
    assert.deepEqual(await ledgerOf(api), []);
  });

  test("a coupon that was applied max_uses times is 422", async (t) => {
    const { api, make, apply, operator } = await couponStage(t);
    await make({ max_uses: 1 });
    assert.equal((await apply("WELCOME")).status, 200);
    const other = await api.addProject("other");
    assert.equal((await apply("WELCOME", { projectId: other, token: operator })).status, 422);
  });

  test("what is malformed is 400, and the code is not repeated", async (t) => {
    const { apply } = await couponStage(t);
    const bodies = [
      {},
      { coupon_code: null },
      { coupon_code: 5 },
      { coupon_code: "" },
      { coupon_code: ["WELCOME"] },
      [],
    ];
    for (const body of bodies)
      assert.equal((await apply("", { body })).status, 400, JSON.stringify(body));
    const long = await apply("x".repeat(101));
    assert.equal(long.status, 400);
    assert.ok(!long.body.message.includes("xxx"));
    assert.equal((await apply("", { text: "{" })).status, 400);
  });

  test("without a token or with a wrong one it is 401, without the right 403, in another's project 404", async (t) => {
    const { api, make, apply } = await couponStage(t);
    await make({ reusable: true });
    for (const token of [null, "nonsense"])
      assert.equal((await apply("WELCOME", { token })).status, 401);
    const tokenOf = (role: "owner" | "admin" | "member" | "billing") =>
      api.issue({ kind: "service_account", role });
    for (const role of ["admin", "member"] as const) {
      assert.equal((await apply("WELCOME", { token: await tokenOf(role) })).status, 403, role);
    }
    assert.equal(
      (await apply("WELCOME", { token: await api.issue({ kind: "inference" }) })).status,
      403,
    );
    for (const role of ["owner", "billing"] as const) {
      assert.equal((await apply("WELCOME", { token: await tokenOf(role) })).status, 200, role);
    }
    for (const projectId of [await api.addProject("other"), "p-00000000" as ProjectId]) {
      assert.equal((await apply("WELCOME", { projectId })).status, 404);
    }
  });

  test("an application and a refused one are in the project's audit log, without the code that was tried", async (t) => {
    const { api, make, apply } = await couponStage(t);
    await make();
    await apply("WELCOME");
    await apply("GUESSED-CODE");
    const [created, applied, refused] = await auditOf(api);
    assert.deepEqual(
      [created.action, created.project_id, created.actor_type],
      ["coupon.create", null, "operator"],
    );
    assert.deepEqual(
      [applied.action, applied.outcome, applied.project_id],
      ["coupon.apply", "success", api.projectId],
    );
    assert.equal(applied.resource_name, "WELCOME");
    assert.deepEqual(
      [refused.action, refused.outcome, refused.project_id],
      ["coupon.apply", "failure", api.projectId],
    );
    assert.ok(!JSON.stringify(refused).includes("GUESSED-CODE"));
  });

  test("whoever tries codes is held back after ten within a minute, project by project", async (t) => {
    const clock = new VirtualClock();
    const { api, make, apply, operator } = await couponStage(t, { clock });
    await make();
    for (let tried = 0; tried < 10; tried++)
      assert.equal((await apply(`GUESS-${tried}`)).status, 404);
    const held = await apply("WELCOME");
    assert.equal(held.status, 429);
    assert.equal(held.headers.get("retry-after"), "60");
    faultAnswer.parse(held.body);
    const other = await api.addProject("other");
    assert.equal((await apply("WELCOME", { projectId: other, token: operator })).status, 200);
    await clock.advance(60_000);
    assert.equal((await apply("WELCOME")).status, 200);
  });

  test("whoever tries codes in many projects is held back after sixty from one address", async (t) => {
    const { api, apply, operator } = await couponStage(t, { clock: new VirtualClock() });
    const projects = await Promise.all(
      Array.from({ length: 7 }, (_, index) => api.addProject(`project ${index}`)),
    );
    const statuses: number[] = [];
    for (const projectId of projects) {
      for (let tried = 0; tried < 10; tried++)
        statuses.push((await apply("X", { projectId, token: operator })).status);
    }
    assert.equal(statuses.filter((status) => status === 404).length, 60);
    assert.ok(statuses.slice(60).every((status) => status === 429));
  });
});
