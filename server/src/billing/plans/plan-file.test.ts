// What a file of plans may say, and how everything else is refused.
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { OperatorFileRefused } from "#lib/operator-file.ts";
import { readPlans } from "./plan-file.ts";
import { selfHosted } from "./plan.ts";

const file = `# Plans of example.org
default = "hobby"

[plans.hobby]
apps = 3
replicas = 5
gpus = 0
audit_retention_days = 7
log_retention_days = 1
call_retention_days = 3
call_records_per_minute = 0
monthly_credit_cents = 3_000
coupons = "named"

[plans.enterprise]
`;

test("a plan says what it limits, and limits nothing that it does not say; self-hosted is there without being said", () => {
  const { standard, byName } = readPlans(file);
  assert.deepEqual(standard, {
    name: "hobby",
    appsMax: 3,
    replicasMax: 5,
    gpusMax: 0,
    auditRetentionDays: 7,
    logRetentionDays: 1,
    callRetentionDays: 3,
    callRecordsPerMinute: 0,
    monthlyCreditCents: 3_000,
    coupons: "named",
  });
  assert.deepEqual(byName.get("enterprise"), { ...selfHosted, name: "enterprise" });
  assert.deepEqual([...byName.keys()], ["self-hosted", "hobby", "enterprise"]);
  assert.equal(readPlans("").standard, selfHosted);
  const own = readPlans("[plans.self-hosted]\napps = 1\n");
  assert.equal(own.standard.appsMax, 1, "self-hosted itself may be given limits");
});

describe("what is wrong is refused with its line, its field, what stands there and what may", () => {
  const refusals: readonly (readonly [string, string])[] = [
    [
      "[plans.hobby]\napps = 'three'",
      'line 2: plans.hobby.apps is "three", but must be a whole number from 1 to 1000000.',
    ],
    [
      "[plans.hobby]\n\nreplicas = 0",
      "line 3: plans.hobby.replicas is 0, but must be a whole number from 1 to 1000000.",
    ],
    [
      "[plans.hobby]\ngpus = 1.5",
      "line 2: plans.hobby.gpus is 1.5, but must be a whole number from 0 to 1000000.",
    ],
    [
      "[plans.hobby]\ncoupons = 'some'",
      'line 2: plans.hobby.coupons is "some", but must be one of all, named, none.',
    ],
    [
      "[plans.hobby]\nreplica = 5",
      "line 2: plans.hobby.replica is unknown; did you mean replicas?",
    ],
    ["[plan.hobby]\napps = 5", "plan is unknown; did you mean plans?"],
    [
      "[plans.'Big One']\napps = 5",
      'plans.Big One is "Big One", but must be called by 1 to 50 lowercase',
    ],
    ["plans = 3", "line 1: plans is 3, but must be a table."],
    ["[plans]\nhobby = [1]", "line 2: plans.hobby is a list, but must be a table."],
    [
      "default = 'pro'\n[plans.hobby]",
      'line 1: default is "pro", but must be one of self-hosted, hobby.',
    ],
    ["[plans.hobby]\napps = \n", "line 2, column 8: it is not valid TOML: "],
    ["plans = { hobby = { apps = -1 } }", "plans.hobby.apps is -1, but must be"],
  ];
  for (const [text, message] of refusals) {
    test(JSON.stringify(text), () => {
      assert.throws(
        () => readPlans(text),
        (error: unknown) => {
          assert.ok(error instanceof OperatorFileRefused);
          assert.ok(error.message.startsWith(message), error.message);
          return true;
        },
      );
    });
  }
});
