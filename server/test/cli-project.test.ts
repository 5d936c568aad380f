// The commands on things of a project (tokens, webhooks, money, members, the audit log) against a
// real management API: each in its good form and refused.
import assert from "node:assert/strict";
import { test } from "node:test";
import { startCliStage } from "./support/cli-stage.ts";
import { insertDelivery } from "./support/webhook-rows.ts";

const nobody = "00000000-0000-4000-8000-000000000000";

test("keys for calling apps and service accounts are created, rotated, listed and deleted", async (t) => {
  const { done, refused } = await startCliStage(t);
  const kinds = [
    { words: ["keys"], create: ["--readable", "--expires", "30d"], none: "key" },
    {
      words: ["service-accounts"],
      create: ["--permissions", "apps.read,apps.call"],
      none: "service account",
    },
  ];
  for (const { words, create, none } of kinds) {
    const made = await done(...words, "create", "ci", ...create);
    assert.match(made.stdout, /^ey\S+\n$/);
    assert.ok(!made.stderr.includes(made.stdout.trim()));
    assert.notEqual((await done(...words, "rotate", "ci", "--overlap", "0")).stdout, made.stdout);
    assert.match((await done(...words, "list")).stdout, /^ci +active /m);
    assert.match(
      await refused(4, ...words, "rotate", "other"),
      new RegExp(`no active ${none} "other"`),
    );
    assert.match(
      await refused(2, ...words, "create", "x", "--expires", "soon"),
      /--expires is "soon"/,
    );
    assert.match(await refused(2, ...words, "delete", "ci"), /add --yes/);
    assert.equal((await done(...words, "delete", "ci", "--yes", "--json")).json().state, "revoked");
  }
  assert.match(
    await refused(2, "service-accounts", "create", "x", "--permissions", "apps.reed"),
    /"apps\.reed", which is not a permission\. Did you mean apps\.read\?/,
  );
  assert.match(
    await refused(2, "service-accounts", "create", "x", "--role", "admn"),
    /Did you mean admin\?/,
  );
});

test("webhook secrets, deliveries, endpoints and the schedule are listed and changed", async (t) => {
  const stage = await startCliStage(t);
  const { done, refused } = stage;
  const first = await insertDelivery(stage);
  const second = await insertDelivery(stage, { state: "delivered" });
  const list = await done("webhooks", "deliveries", "--state", "failed");
  assert.match(list.stdout, new RegExp(`^DELIVERY .*\n${first.id} +failed +1 `));
  assert.match(
    (await done("webhooks", "deliveries", "show", second.id)).stdout,
    /^ATTEMPT +STARTED/m,
  );
  assert.match(
    await refused(4, "webhooks", "deliveries", "show", nobody),
    /slipway webhooks deliveries/,
  );
  await done("webhooks", "deliveries", "replay", second.id);
  assert.equal(
    (await done("webhooks", "deliveries", "replay", "--since", "1h", "--json")).json().replayed,
    1,
  );
  assert.match(
    await refused(2, "webhooks", "deliveries", "replay"),
    /either the id of a delivery or --since/,
  );

  assert.match(
    (await done("webhooks", "endpoints")).stdout,
    /^ENDPOINT +STATE +WAITING .*\n\S+ +active +2 /,
  );
  assert.match(
    (await done("webhooks", "endpoints", "pause", first.endpointId)).stderr,
    /are paused; 2 wait/,
  );
  await done("webhooks", "endpoints", "resume", first.endpointId);
  assert.match(await refused(4, "webhooks", "endpoints", "pause", nobody), /\w/);

  const { stdout } = await done("webhooks", "secrets", "create", "--overlap", "1");
  assert.match(stdout, /^whsec_\S+\n$/);
  const secrets = await done("webhooks", "secrets");
  assert.ok(!secrets.stdout.includes("whsec_"));
  const [newest] = (await done("webhooks", "secrets", "list", "--json")).json();
  assert.match(
    await refused(2, "webhooks", "secrets", "create", "--overlap", "x"),
    /must be a number of hours/,
  );
  await done("webhooks", "secrets", "delete", newest.id, "--yes");

  await done("webhooks", "schedule", "short");
  assert.equal((await done("webhooks", "schedule")).stdout, "short\n");
  assert.match(await refused(2, "webhooks", "schedule", "never"), /must be standard or short/);
});

test("usage, costs, budgets and coupons are shown, set and removed", async (t) => {
  const stage = await startCliStage(t);
  const { done, refused } = stage;
  assert.match(
    (await done("usage", "--by", "day")).stdout,
    /^DAY +REPLICAS .*COST\ntotal +0\.00 h .* 0\.00 USD\n$/,
  );
  assert.match(
    await refused(2, "usage", "--from", "yesterday"),
    /from is "yesterday".*a day of the form/,
  );
  assert.match(await refused(2, "usage", "--by", "month"), /--by is "month".*app, day, compute/);
  assert.match((await done("cost")).stdout, /^Month +\d{4}-\d\d\nBefore coupons +0\.00 USD\n/);
  assert.equal((await done("cost", "--app", "hello", "--json")).json().summary.currency, "USD");
  assert.match(await refused(4, "cost", "--app", "helo"), /Did you mean hello\?/);

  assert.match(
    (await done("budgets")).stderr,
    /^There is no budget\. To set one: slipway budgets set <amount>/,
  );
  assert.equal((await done("budgets", "--json")).json(), null);
  assert.match(await refused(4, "budgets", "--app", "helo"), /Did you mean hello\?/);
  const set = await done("budgets", "set", "25.50", "--warn", "50,80", "--stop");
  assert.equal(set.stderr, "The budget is 25.50 USD a month; 0.00 USD is spent.\n");
  assert.match((await done("budgets")).stdout, /^Of +the project\n[\s\S]*Warns at +50 %, 80 %\n/);
  await done("budgets", "set", "1", "--app", "hello");
  assert.equal(
    (await done("budgets", "show", "--app", "hello", "--json")).json().amount_cents,
    100,
  );
  assert.match(await refused(2, "budgets", "set", "much"), /The amount is "much"/);
  assert.match(
    await refused(2, "budgets", "remove"),
    /Remove the budget of the project\?.*add --yes/,
  );
  await done("budgets", "remove", "--yes");
  await done("budgets", "remove", "--app", "hello", "--yes");

  const coupon = {
    code: "WELCOME",
    name: "Hi",
    coupon_type: "fixed_amount",
    amount_cents: 500,
    amount_currency: "USD",
  };
  const token = await stage.issue({ kind: "operator" });
  const made = await stage.call("POST", "/v2/operator/coupons", {
    token,
    body: { ...coupon, frequency: "once" },
  });
  assert.equal(made.status, 201);
  assert.match((await done("coupon")).stderr, /slipway coupon apply <code>/);
  await done("coupon", "apply", "WELCOME");
  assert.match((await done("coupon")).stdout, /^WELCOME +Hi +active +5\.00 USD +5\.00 USD +once /m);
  assert.match(await refused(1, "coupon", "apply", "WELCOME"), /\w/);
});

test("the audit log is listed by what was asked for, and exported", async (t) => {
  const { done, refused } = await startCliStage(t);
  assert.match(
    (await done("audit", "--action", "app.create")).stdout,
    /^WHEN +ACTION .*\n\S+ +app\.create +owner +success /,
  );
  assert.ok(
    (await done("audit", "list", "--since", "1h", "-n", "1", "--json")).json().length === 1,
  );
  assert.equal(
    (await done("audit", "list", "--until", "24h")).stderr,
    "There are no such entries.\n",
  );
  assert.match(await refused(2, "audit", "list", "--outcome", "failur"), /Did you mean failure\?/);
  assert.match((await done("audit", "export")).stdout, /^\{"kind":"slipway-audit-export"/);
  assert.match((await done("audit", "export", "--format", "csv")).stdout, /app\.create/);
  assert.match(await refused(2, "audit", "export", "--action", "x"), /action is "x"/);
});

test("projects are made, renamed and deleted", async (t) => {
  const { slipway, issue, refused } = await startCliStage(t);
  assert.match(
    await refused(3, "projects", "create", "shop"),
    /belongs to one project and cannot create others/,
  );
  const environment = { SLIPWAY_TOKEN: await issue({ kind: "operator" }) };
  const run = async (...words: readonly string[]) =>
    await slipway(["projects", ...words], { environment });
  const { id } = (await run("create", "shop", "--json")).json();
  assert.match((await run("list")).stdout, new RegExp(`^ *${id} +shop$`, "m"));
  assert.equal(
    (await run("rename", "shop", "store")).stderr,
    `The project ${id} is called store now.\n`,
  );
  const unknown = await run("rename", "shop", "again");
  assert.deepEqual([unknown.code, /You have no project "shop"/.test(unknown.stderr)], [4, true]);
  assert.match((await run("delete", "store")).stderr, /add --yes/);
  assert.equal((await run("delete", "store", "--yes")).code, 0);
  assert.doesNotMatch((await run("list")).stdout, /store/);
});

test("members are listed, changed and removed by their address", async (t) => {
  const { done, refused, slipway, projectId } = await startCliStage(t);
  assert.match((await done("invite", "ada@example.org", "--role", "admin")).stdout, /^http\S+\n$/);
  assert.match((await done("members")).stdout, /^ada@example\.org +admin +invited +\d{4}-/m);
  assert.match(
    await refused(4, "members", "role", "ada@example.com", "admin"),
    /no member "ada@example\.com"/,
  );
  assert.match(
    await refused(2, "members", "role", "ada@example.org", "king"),
    /must be one of owner, admin/,
  );
  assert.match(await refused(2, "members", "remove", "ada@example.org"), /add --yes/);
  assert.equal(
    (await done("members", "remove", "Ada@example.org", "--yes")).stderr,
    "The invitation of ada@example.org was withdrawn.\n",
  );
  assert.match(
    (await done("projects")).stdout,
    new RegExp(`^ +PROJECT +NAME\n +${projectId} +first\n$`),
  );
  const other = await slipway(["members"], { environment: { SLIPWAY_PROJECT: "frist" } });
  assert.deepEqual(other.code, 4);
  assert.match(other.stderr, /^You have no project "frist"\. Did you mean first\?/);
});

test("a caller who may not do it is told so with a code of its own", async (t) => {
  const stage = await startCliStage(t);
  const token = await stage.issue({ kind: "service_account", role: "billing" });
  const { code, stderr } = await stage.slipway(["apps", "delete", "hello", "--yes"], {
    environment: { SLIPWAY_TOKEN: token },
  });
  assert.equal(code, 3);
  assert.match(stderr, /apps\.delete.*To see who you are: slipway whoami/);
  const invalid = await stage.slipway(["apps"], { environment: { SLIPWAY_TOKEN: "x.y.z" } });
  assert.equal(invalid.code, 3);
  assert.match(invalid.stderr, /This token comes from SLIPWAY_TOKEN\./);
});
