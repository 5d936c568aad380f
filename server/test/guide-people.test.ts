// The guide "People and tokens": the settings and roles that it names. The walk
// (guides-walk.test.ts) follows its commands.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import type { Permission } from "@slipway/contract/words.ts";
import { settingTable } from "#config-table.ts";
import { permissionsOf } from "#accounts/permissions.ts";

const projectDir = join(import.meta.dirname, "../..");
const guide = join(projectDir, "docs/guides/people-and-tokens.md");

test("the settings that the guide names are there", async () => {
  const own = new Set(["SLIPWAY_URL", "SLIPWAY_TOKEN", "SLIPWAY_PROJECT", "SLIPWAY_CI_TOKEN"]);
  const named = new Set((await readFile(guide, "utf8")).match(/SLIPWAY_[A-Z_]+/g));
  const unknown = [...named].filter((name) => !own.has(name) && !Object.hasOwn(settingTable, name));
  assert.deepEqual(unknown, []);
});

test("the guide's table of roles says what roles may do", async () => {
  const text = await readFile(guide, "utf8");
  const rowOf = (role: string): string =>
    new RegExp(`^\\| \`${role}\` \\| (.*) \\|$`, "m").exec(text)?.[1] ?? "";
  const own = {
    member: rowOf("member"),
    admin: rowOf("admin"),
    owner: rowOf("owner"),
    billing: rowOf("billing"),
  };
  /** Words of a row, with what they promise. */
  const promises: readonly [keyof typeof own, string, readonly Permission[]][] = [
    ["member", "create, change and call apps", ["apps.create", "apps.update", "apps.call"]],
    [
      "member",
      "builds, logs, runs, webhooks",
      ["builds.create", "logs.read", "runs.redrive", "webhooks.write"],
    ],
    ["member", "read and set secrets", ["secrets.read", "secrets.write"]],
    ["admin", "delete apps", ["apps.delete"]],
    ["admin", "set git credentials", ["credentials.write"]],
    ["admin", "create and revoke tokens", ["tokens.write"]],
    ["admin", "invite and change members", ["members.write"]],
    ["admin", "see usage and costs", ["billing.read"]],
    ["admin", "rename the project", ["projects.update"]],
    ["owner", "delete the project", ["projects.delete"]],
    ["owner", "read, export and forward the audit log", ["audit_log.read", "audit_log.forward"]],
    ["owner", "redeem coupons, set budgets", ["billing.write"]],
    ["billing", "redeem coupons, set budgets", ["billing.write"]],
    ["billing", "usage and costs", ["billing.read"]],
  ];
  const lower = { admin: "member", owner: "admin" } as const;
  for (const [role, words, permissions] of promises) {
    assert.ok(own[role].includes(words), `${role}: ${words}`);
    for (const permission of permissions) {
      assert.ok(permissionsOf(role).has(permission), `${role} may ${permission}`);
      if (role in lower)
        assert.ok(
          !permissionsOf(lower[role as keyof typeof lower]).has(permission),
          `only ${role} may ${permission}`,
        );
    }
  }
});
