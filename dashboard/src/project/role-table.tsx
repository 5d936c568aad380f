// What each role of a project may do, from the table that the platform decides by.
import type { ReactNode } from "react";
import { rolePermissions } from "@slipway/contract/role-permissions.ts";
import {
  choosablePermissions,
  permissionTable,
  roles,
  type Permission,
  type Role,
} from "@slipway/contract/words.ts";
import { List } from "#parts/list.tsx";
import { Icon } from "#parts/show.tsx";

/** One row for each permission, one column for each role. */
export function RoleTable(): ReactNode {
  return (
    <List
      label="What each role may do"
      isMatrix
      columns={["Permission", ...roles]}
      rows={choosablePermissions.map((permission) => ({
        key: permission,
        cells: [
          <span key="about" className="permission" title={permission}>
            {permissionTable[permission]}
          </span>,
          ...roles.map((role) => <Has key={role} role={role} permission={permission} />),
        ],
      }))}
    />
  );
}

function Has({
  role,
  permission,
}: {
  readonly role: Role;
  readonly permission: Permission;
}): ReactNode {
  return rolePermissions[role].has(permission) ? (
    <>
      <Icon name="done" />
      <span className="for-readers">yes</span>
    </>
  ) : (
    <>
      <span className="muted" aria-hidden="true">
        –
      </span>
      <span className="for-readers">no</span>
    </>
  );
}
