-- The number of a run's latest start, by which a replica knows it. Unlike `attempt` it never goes back, so that a start which
-- was taken back and the next one are not taken for each other.
alter table runs add column starts integer not null default 0;

-- Until now `attempt` was that number. Of a run that waits, the next number may have been used and taken back.
update runs set starts = attempt + (state <> 'running')::int where state in ('pending', 'queued', 'running');
