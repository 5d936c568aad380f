// The database role that the platform works as. It may read append-only tables and add rows to
// them, but not change or remove rows, since it does not own the tables. The user who migrates
// creates the role and grants its rights; every connection then works as the role. Its name
// contains the database user, so that the platforms of several users on one server have different
// roles.
import type { Client } from "pg";
import { errorCode } from "#lib/error-code.ts";
import type { Log } from "#lib/log.ts";

/** The role's rights on append-only tables. */
const appendOnlyRights: Readonly<Record<string, readonly string[]>> = {
  audit_chains: ["select"],
  audit_checkpoints: ["select", "insert"],
  audit_links: ["select"],
  audit_log: ["select", "insert"],
  audit_stubs: ["select"],
  ledger_entries: ["select", "insert"],
  ledger_transactions: ["select", "insert"],
  schema_migrations: ["select"],
};
/** The role's rights on all other tables. */
const otherRights = ["select", "insert", "update", "delete"];
/** Functions that the role may call, and PUBLIC may not. */
const restrictedFunctions = ["remove_audit_entries"];

/** An expression for the role's name. PostgreSQL cuts names after 63 bytes; the suffix has 8. */
const roleName = "left(session_user::text, 55) || '_runtime'";

/**
 * A statement that makes a connection work as the role, if the role exists and has its rights.
 * Since PostgreSQL 16, not every member of a role may work as it.
 */
export const takeRuntimeRole = `
  select set_config('role', rolname, false) from pg_roles
   where rolname = ${roleName}
     and case when current_setting('server_version_num')::int >= 160000
              then pg_has_role(session_user, oid, 'SET') else pg_has_role(session_user, oid, 'MEMBER') end
     and has_table_privilege(oid, to_regclass('audit_log'), 'SELECT')`;

/**
 * Creates the role and grants its missing rights. `client` is connected as the owner of the tables,
 * and holds the lock for migrations.
 */
export async function prepareRuntimeRole(client: Client, log: Log): Promise<void> {
  const role = await createRole(client);
  if (role.reason !== null) {
    const { name, user } = role;
    log.warn(
      { reason: role.reason },
      `the database user ${user} can turn off the triggers that protect the audit log and the ledger from changes, since it cannot work as the role ${name}: ask a database administrator to run CREATE ROLE "${name}" NOLOGIN; GRANT "${name}" TO "${user}"; (the first one only if there is no such role), and restart the platform`,
    );
    return;
  }
  for (const statement of await missingGrants(client, role.name)) await client.query(statement);
}

type Role = {
  readonly name: string;
  readonly user: string;
  /** Why the user cannot work as the role; null: the role is usable. */
  readonly reason: string | null;
};

async function createRole(client: Client): Promise<Role> {
  const found = await client.query<{
    name: string;
    user: string;
    quoted: string;
    is_there: boolean;
  }>(
    `select name, session_user as user, quote_ident(name) as quoted,
            exists (select from pg_roles where rolname = name) as is_there from (select ${roleName} as name) as named`,
  );
  const [row] = found.rows;
  if (row === undefined) throw new Error("a select without a table has one row");
  const { name, user, quoted, is_there: isThere } = row;
  try {
    if (!isThere) await runOnce(client, `create role ${quoted} nologin`);
    if (!(await canTake(client, quoted))) await runOnce(client, `grant ${quoted} to session_user`);
    return { name, user, reason: null };
  } catch (error) {
    // 42501 is a lack of rights, which the caller reports; the platform works without the role too.
    if (errorCode(error) === "42501") return { name, user, reason: (error as Error).message };
    throw error;
  }
}

/**
 * Runs a statement that creates or grants a role, unless another platform has just done the same:
 * roles belong to the whole server.
 */
async function runOnce(client: Client, statement: string): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      await client.query(statement);
      return;
    } catch (error) {
      const code = errorCode(error);
      // The role or the grant exists by now: PostgreSQL has found it (42710), or an index has
      // refused the same row (23505).
      if (code === "42710" || code === "23505") return;
      // PostgreSQL says "tuple concurrently updated" (XX000) when two platforms change a role at
      // once. That passes; the same code 21 times in a row has another cause.
      if (code !== "XX000" || tries >= 20) throw error;
    }
  }
}

/** Whether the user may work as the role. */
async function canTake(client: Client, quoted: string): Promise<boolean> {
  await client.query("begin");
  try {
    await client.query(`set local role ${quoted}`);
    return true;
  } catch (error) {
    // 42501 is a lack of rights.
    if (errorCode(error) === "42501") return false;
    throw error;
  } finally {
    await client.query("rollback");
  }
}

/** Statements that correct the role's rights; empty when they are correct. */
async function missingGrants(client: Client, role: string): Promise<string[]> {
  const { rows } = await client.query<{ statement: string }>(
    `with wanted as (
       select c.oid, format('%I.%I', n.nspname, c.relname) as name, right_name,
              right_name = any (coalesce((select array(select jsonb_array_elements_text(value))
                                            from jsonb_each($2::jsonb) where key = c.relname), $3::text[])) as is_wanted
         from pg_class c join pg_namespace n on n.oid = c.relnamespace
        cross join unnest(array['select', 'insert', 'update', 'delete', 'truncate']) as right_name
        where n.nspname = current_schema() and c.relkind = 'r')
     select format('grant usage on schema %I to %I', current_schema(), $1::text) as statement
      where not has_schema_privilege($1, current_schema(), 'usage')
     union all
     -- Databases made by PostgreSQL 14 or older let everybody create objects here, where functions of other owners look up names.
     select format('revoke create on schema %I from public, %I', current_schema(), $1::text)
      where has_schema_privilege($1, current_schema(), 'create')
     union all
     select format('grant %s on %s to %I', right_name, name, $1::text) from wanted
      where is_wanted and not has_table_privilege($1, oid, right_name)
     union all
     select format('revoke %s on %s from %I', right_name, name, $1::text) from wanted
      where not is_wanted and has_table_privilege($1, oid, right_name)
     union all
     select format('grant execute on function %s to %I', oid::regprocedure, $1::text) from pg_proc
      where pronamespace = current_schema()::regnamespace and proname = any ($4)
        and not has_function_privilege($1, oid, 'execute')`,
    [role, JSON.stringify(appendOnlyRights), otherRights, restrictedFunctions],
  );
  return rows.map((row) => row.statement);
}
