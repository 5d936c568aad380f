-- The runs that a replica took down: its last lines, which it printed for no run in particular, belong to each of them.

alter table app_logs add column ended_run_ids uuid[];
create index app_logs_by_ended_run on app_logs using gin (ended_run_ids) where ended_run_ids is not null;

-- Why the replica ended, for a plain call that broke off with it.
alter table calls add column reason text;
