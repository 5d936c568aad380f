// Reads tables, constraints, indexes and the like from PostgreSQL's catalog, for the generators
// called by schema.ts.
import type { Client } from "pg";

export type Column = {
  readonly name: string;
  /** In SQL syntax: `text`, `timestamp with time zone`, `numeric(8,3)`. */
  readonly type: string;
  readonly required: boolean;
  readonly default: string | null;
  /** "a": generated always as identity, "d": by default; "" none. */
  readonly identity: string;
};

export type Constraint = {
  readonly name: string;
  /** p primary key, u unique, f foreign key, c check, x exclusion. */
  readonly kind: string;
  readonly definition: string;
  readonly columns: readonly string[];
  readonly references: string | null;
};

export type Table = {
  readonly name: string;
  readonly columns: readonly Column[];
  readonly constraints: readonly Constraint[];
  readonly indexes: readonly string[];
};

export type Catalog = {
  readonly tables: readonly Table[];
  /** Functions, views and triggers as SQL statements. */
  readonly others: readonly string[];
};

/** Maintained by the migrations themselves. */
const ownTable = "schema_migrations";

/** The schema `public`: tables and constraints sorted by name, columns in their defined order. */
export async function readCatalog(client: Client): Promise<Catalog> {
  const tables = await client.query<{ oid: number; name: string }>(
    `select oid::int as oid, relname as name from pg_class
      where relnamespace = 'public'::regnamespace and relkind = 'r' and relname <> $1 order by relname`,
    [ownTable],
  );
  const read: Table[] = [];
  for (const { oid, name } of tables.rows) {
    read.push({
      name,
      columns: await readColumns(client, oid),
      constraints: await readConstraints(client, oid),
      indexes: await readIndexes(client, oid),
    });
  }
  return { tables: read, others: await readOthers(client) };
}

async function readColumns(client: Client, table: number): Promise<Column[]> {
  const { rows } = await client.query<Column>(
    `select a.attname as name, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull as required,
            pg_get_expr(d.adbin, d.adrelid) as "default", a.attidentity::text as identity
       from pg_attribute a left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
      where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped order by a.attnum`,
    [table],
  );
  return rows;
}

/** Not-null constraints are shown with the columns. */
async function readConstraints(client: Client, table: number): Promise<Constraint[]> {
  const { rows } = await client.query<Constraint>(
    `select c.conname as name, c.contype::text as kind, pg_get_constraintdef(c.oid) as definition,
            array(select a.attname::text from unnest(c.conkey) with ordinality k(number, place)
                    join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.number order by k.place) as columns,
            (select relname from pg_class where oid = c.confrelid) as "references"
       from pg_constraint c where c.conrelid = $1 and c.contype <> 'n' order by c.contype <> 'p', c.conname`,
    [table],
  );
  return rows;
}

async function readIndexes(client: Client, table: number): Promise<string[]> {
  const { rows } = await client.query<{ definition: string }>(
    `select pg_get_indexdef(i.indexrelid) as definition from pg_index i
      where i.indrelid = $1 and not exists (select from pg_constraint c where c.conindid = i.indexrelid and c.contype in ('p', 'u', 'x'))
      order by 1`,
    [table],
  );
  return rows.map((row) => row.definition);
}

async function readOthers(client: Client): Promise<string[]> {
  const { rows } = await client.query<{ definition: string }>(
    `select pg_get_functiondef(oid) as definition, 1 as place, proname as name from pg_proc
      where pronamespace = 'public'::regnamespace and prokind in ('f', 'p')
     union all
     select 'create view ' || relname || ' as ' || pg_get_viewdef(oid), 2, relname from pg_class
      where relnamespace = 'public'::regnamespace and relkind = 'v'
     union all
     select pg_get_triggerdef(t.oid), 3, t.tgname from pg_trigger t join pg_class c on c.oid = t.tgrelid
      where c.relnamespace = 'public'::regnamespace and not t.tgisinternal
     order by place, name, definition`,
  );
  return rows.map((row) => row.definition);
}
