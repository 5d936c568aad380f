-- How many plain calls of an app were not recorded, as there were too many or the database was away: some seconds a row.

create table calls_left_out (
  id uuid primary key,
  project_id text not null,
  app_id text not null,
  calls integer not null check (calls > 0),
  -- When the latest of them came.
  at timestamptz not null
);
create index calls_left_out_by_app on calls_left_out (app_id, at) include (calls);
create index calls_left_out_by_time on calls_left_out using brin (at);
