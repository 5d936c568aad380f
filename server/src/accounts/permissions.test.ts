// Roles and kinds of token against permissions: what each may do, and above all may not.
import assert from "node:assert/strict";
import { test } from "node:test";
import { permissionTable, roles, type Permission, type Role } from "@slipway/contract/words.ts";
import { allows, mayGive, permissionsOf } from "./permissions.ts";

const permissions = Object.keys(permissionTable) as Permission[];
const inProject = { projectId: "p-00000001" };

test("an owner may do everything in the project but operate the platform", () => {
  const refused = permissions.filter((permission) => !permissionsOf("owner").has(permission));
  assert.deepEqual(refused, ["platform.manage"]);
});

test("the audit log is the owner's alone", () => {
  assert.deepEqual(
    roles.filter((role) => permissionsOf(role).has("audit_log.read")),
    ["owner"],
  );
});

test("billing sees money and no apps; members deploy, but neither delete apps nor issue tokens", () => {
  assert.ok(
    permissionsOf("billing").has("billing.write") &&
      !permissionsOf("billing").has("apps.read") &&
      !permissionsOf("billing").has("apps.call"),
  );
  assert.ok(
    permissionsOf("member").has("apps.create") &&
      !permissionsOf("member").has("apps.delete") &&
      !permissionsOf("member").has("tokens.write"),
  );
});

test("an inference token calls apps of its project and does nothing else", () => {
  const caller = { kind: "inference" as const, ...inProject };
  assert.deepEqual(
    permissions.filter((permission) => allows(caller, permission, "p-00000001")),
    ["apps.call"],
  );
});

test("no role reaches into another project; an operator's token reaches everywhere", () => {
  const owner = {
    kind: "service_account" as const,
    role: "owner" as const,
    permissions: null,
    ...inProject,
  };
  const operator = { kind: "operator" as const };
  for (const permission of permissions) {
    assert.equal(allows(owner, permission, "p-00000002"), false);
    assert.equal(allows(owner, permission, null), false);
    assert.equal(allows(operator, permission, "p-00000002"), true);
  }
});

test("a service account whose row names no role may do nothing", () => {
  const caller = { kind: "service_account" as const, role: null, permissions: null, ...inProject };
  assert.equal(
    permissions.some((permission) => allows(caller, permission, "p-00000001")),
    false,
  );
});

test("a service account with chosen permissions has these and no others, whatever its role says", () => {
  const chosen = new Set<Permission>(["logs.read", "apps.read"]);
  const caller = {
    kind: "service_account" as const,
    role: "owner" as const,
    permissions: chosen,
    ...inProject,
  };
  assert.deepEqual(
    permissions.filter((permission) => allows(caller, permission, "p-00000001")),
    ["apps.read", "logs.read"],
  );
  assert.equal(allows(caller, "logs.read", "p-00000002"), false);
});

test("a person has in each project the role that they have there", () => {
  const held = new Map<string, Role>([
    ["p-00000001", "owner"],
    ["p-00000002", "billing"],
  ]);
  const caller = { kind: "person" as const, roles: held };
  assert.equal(allows(caller, "audit_log.read", "p-00000001"), true);
  assert.equal(allows(caller, "audit_log.read", "p-00000002"), false);
  assert.equal(allows(caller, "billing.read", "p-00000002"), true);
  assert.equal(allows(caller, "projects.read", "p-00000003"), false);
  assert.equal(allows(caller, "projects.read", null), false);
});

test("nobody gives a role that allows what they may not: admins give neither owner nor billing", () => {
  const given = (role: Role): Role[] =>
    roles.filter((other) =>
      mayGive({ kind: "person", roles: new Map([["p-00000001", role]]) }, other, "p-00000001"),
    );
  assert.deepEqual(given("owner"), roles);
  assert.deepEqual(given("admin"), ["admin", "member"]);
  assert.deepEqual(given("member"), ["member"]);
  assert.deepEqual(given("billing"), ["billing"]);
  const chosen = new Set<Permission>(["members.write"]);
  const account = {
    kind: "service_account" as const,
    role: null,
    permissions: chosen,
    ...inProject,
  };
  assert.deepEqual(
    roles.filter((role) => mayGive(account, role, "p-00000001")),
    [],
  );
  assert.equal(mayGive({ kind: "operator" }, "owner", "p-00000001"), true);
});
