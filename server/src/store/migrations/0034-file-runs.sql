-- Runs of a file: the app holds files that clients run once, and a run waits for the build of its own files.

-- Its newest deployment is a file that runs once.
alter table apps add column runs_files boolean not null default false;

-- The build of the run's files: until it has succeeded, due_at is infinity. Null: the run takes the live release.
alter table runs add column build_id uuid;

create index runs_of_builds on runs (build_id) where build_id is not null and ended_at is null;
