-- Releases that are numbered, tell what they were made of and by whom, and end with a reason; what pauses, stops or
-- removes an app; and the commit and author of builds.

alter table apps
  -- Stopped by a person; null: it takes calls.
  add column stopped_at timestamptz,
  -- Pushes are not deployed until a person resumes them or deploys; the reason is a sentence for the app's owner.
  add column auto_deploy_paused_at timestamptz,
  add column auto_deploy_paused_reason text,
  -- The app is being removed: it takes no calls and no changes, and no list shows it.
  add column deleting_at timestamptz,
  add constraint apps_paused check ((auto_deploy_paused_at is null) = (auto_deploy_paused_reason is null));

alter table builds
  -- The branch that was asked for, or whose newest commit was fetched.
  add column branch text,
  add column commit_message text,
  add column commit_author text,
  -- The actor of the audit log; null: from before it was noted.
  add column created_by jsonb,
  -- Why its end was asked for; null: a person asked.
  add column cancel_reason text,
  -- A hash over everything that the artifact is made of: builds of one app with the same hash share an artifact.
  add column fingerprint text,
  drop constraint builds_cause_check,
  add constraint builds_cause_check check (cause in ('create', 'push', 'rebuild', 'deploy', 'settings'));
create index builds_by_fingerprint on builds (app_id, fingerprint) where fingerprint is not null;

update builds set branch = coalesce(settings ->> 'gitBranch', request ->> 'gitBranch');

alter table releases
  add column number integer check (number >= 1),
  add column cause text check (cause in ('create', 'push', 'rebuild', 'deploy', 'settings')),
  add column created_by jsonb,
  add column commit_sha text,
  add column commit_message text,
  add column commit_author text,
  add column branch text,
  -- Where each setting comes from: api, config_toml, repository or default; null: from before it was noted.
  add column origins jsonb,
  -- What the settings are without the fields that the API has set; null: from before it was noted.
  add column base_settings jsonb,
  add column state text check (state in ('starting', 'rolling_out', 'live', 'replaced', 'taken_back', 'failed')),
  add column end_reason text,
  add column ended_at timestamptz,
  -- Its artifact is kept no longer, so it cannot be started again.
  add column collected_at timestamptz;

update releases r set number = n.number
  from (select id, row_number() over (partition by app_id order by created_at, id) as number from releases) n
  where n.id = r.id;
update releases r set
    cause = b.cause,
    commit_sha = b.commit_sha,
    branch = r.settings ->> 'gitBranch',
    state = case
      when a.live_release_id = r.id then 'live'
      when r.promoted_at is not null then 'replaced'
      when b.ended_at is null then 'starting'
      else 'failed' end,
    end_reason = case
      when a.live_release_id = r.id then null
      when r.promoted_at is not null then 'A newer release took its place.'
      when b.ended_at is not null then coalesce(b.reason, 'It did not start.') end,
    ended_at = case
      when a.live_release_id = r.id then null
      when r.promoted_at is not null then coalesce(
        (select min(next.promoted_at) from releases next where next.app_id = r.app_id and next.promoted_at > r.promoted_at),
        r.promoted_at)
      else b.ended_at end
  from builds b, apps a
  where b.id = r.build_id and a.id = r.app_id;
-- The version before kept the artifacts of three releases of an app that were live, and of those with replicas.
update releases r set collected_at = now()
  from (select id, rank() over (partition by app_id order by promoted_at desc nulls last) as place from releases) p
  where p.id = r.id and r.ended_at is not null and (r.promoted_at is null or p.place > 3)
    and not exists (select from replicas where release_id = r.id and stopped_at is null);

alter table releases
  alter column number set not null,
  alter column cause set not null,
  alter column state set not null,
  drop constraint releases_build_id_key,
  add constraint releases_app_id_number_key unique (app_id, number),
  add constraint releases_end check ((ended_at is null) = (state in ('starting', 'rolling_out', 'live'))),
  add constraint releases_end_reason check ((ended_at is null) = (end_reason is null));
drop index releases_by_app;
create index releases_by_build on releases (build_id);
create unique index releases_live on releases (app_id) where state = 'live';
