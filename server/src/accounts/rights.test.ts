// Who may give which rights: nobody more than they have, by whatever kind of token or sign-in.
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { choosablePermissions, roles, type Permission } from "@slipway/contract/words.ts";
import type { ProjectId, TokenId } from "#lib/ids.ts";
import type { Caller } from "./caller.ts";
import { allows, permissionsOf } from "./permissions.ts";
import { requireRights, rightsOf, type Rights } from "./rights.ts";

const projectId = "p-00000001" as ProjectId;
const anyPermissions = fc.subarray([...choosablePermissions]);
const anyRole = fc.constantFrom(...roles);

const tokenId = "00000000-0000-4000-8000-000000000001" as TokenId;
const token = {
  tokenId,
  accountId: tokenId,
  projectId,
  name: "ci",
  role: null,
  permissions: null,
} as const;
const person = {
  personId: "1",
  sessionId: "2",
  email: "a@example.org",
  name: "A",
  projectId: null,
} as const;

const anyCaller: fc.Arbitrary<Caller> = fc.oneof(
  anyRole.map((role) => ({ ...token, kind: "service_account" as const, role })),
  anyPermissions.map((chosen) => ({
    ...token,
    kind: "service_account" as const,
    permissions: new Set(chosen),
  })),
  anyRole.map((role) => ({
    ...person,
    kind: "person" as const,
    roles: new Map([[projectId, role]]),
  })),
  fc.constant({ ...token, kind: "inference" as const }),
  fc.constant({ ...token, kind: "operator" as const, projectId: null }),
);
const anyRights: fc.Arbitrary<Rights> = fc.oneof(
  anyRole.map((role) => ({ role, permissions: null })),
  anyPermissions.map((permissions) => ({ role: null, permissions })),
);

function mayGive(caller: Caller, rights: Rights, project: ProjectId): boolean {
  try {
    requireRights(caller, rights, project);
    return true;
  } catch {
    return false;
  }
}

test("whoever may give rights could do by themselves all that they give", () => {
  fc.assert(
    fc.property(anyCaller, anyRights, (caller, rights) => {
      const given: Iterable<Permission> =
        rights.role === null ? rights.permissions : permissionsOf(rights.role);
      const hasAll = [...given].every((permission) => allows(caller, permission, projectId));
      assert.equal(mayGive(caller, rights, projectId), hasAll);
    }),
  );
});

test("nobody but an operator gives rights in another project, and the refusal says what is missing", () => {
  const owner: Caller = { ...token, kind: "service_account", role: "owner" };
  const elsewhere = "p-00000002" as ProjectId;
  assert.equal(mayGive(owner, { role: "billing", permissions: null }, elsewhere), false);
  assert.equal(
    mayGive(
      { ...token, kind: "operator", projectId: null },
      { role: "owner", permissions: null },
      elsewhere,
    ),
    true,
  );
  const admin: Caller = { ...person, kind: "person", roles: new Map([[projectId, "admin"]]) };
  assert.throws(() => requireRights(admin, { role: "owner", permissions: null }, projectId), {
    code: "forbidden",
    message: /the role owner would need .*audit_log\.read.*which you lack/,
  });
});

test("a row's permissions are those that there are, in one order, whatever a later version wrote", () => {
  const row = {
    role: null,
    permissions: ["logs.read", "moon.walk", "platform.manage", "apps.read"],
  };
  assert.deepEqual(rightsOf(row), { role: null, permissions: ["apps.read", "logs.read"] });
  assert.deepEqual(rightsOf({ role: null, permissions: null }), { role: null, permissions: [] });
});
