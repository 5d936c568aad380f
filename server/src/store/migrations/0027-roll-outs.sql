-- The latest roll-out of each app: how far the calls have moved from its live release to a new one. Also which releases
-- ran the starts of a run.

create table roll_outs (
  app_id text primary key references apps (id) on delete cascade,
  release_id uuid not null references releases (id) on delete cascade,
  -- The live release, which gives its calls up.
  from_release_id uuid not null references releases (id) on delete cascade,
  state text not null check (state in ('running', 'paused', 'finished', 'taken_back', 'replaced')),
  duration_seconds double precision not null check (duration_seconds > 0),
  -- Percent of the calls that the new release is to get.
  share integer not null check (share between 20 and 100),
  -- When the share grows next; while it is paused, how much of the step was left.
  step_ends_at timestamptz,
  step_left_ms integer,
  -- It was taken back because the release was worse: that release gets no more calls.
  is_worse boolean not null default false,
  -- Why it has ended, in a sentence for the app's owner.
  reason text,
  started_at timestamptz not null,
  ended_at timestamptz,
  constraint roll_outs_step check ((step_ends_at is not null) = (state = 'running')),
  constraint roll_outs_left check ((step_left_ms is not null) = (state = 'paused')),
  constraint roll_outs_end check ((ended_at is null) = (state in ('running', 'paused')))
);

alter table runs
  -- The release that ran each start, by the number of the start; a start may have come to nothing.
  add column started_release_ids uuid[] not null default '{}';
