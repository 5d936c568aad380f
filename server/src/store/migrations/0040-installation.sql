-- The identity of the installation, which is everything that works with this database. Whatever it starts carries the id as its label.

create table installation (
  id text primary key,
  is_only boolean not null default true unique check (is_only)
);

-- Which installation the platform worked for. Null: it ran before installations had an id, and what it started carries its own.
alter table instances add column installation_id text;
