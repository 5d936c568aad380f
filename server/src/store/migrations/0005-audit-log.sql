-- The audit log as its readers see it: by time, narrowed by actor, action and outcome in any combination. Each index ends
-- in the order of pages, so that any page is read in one go. There are two outcomes only: who wants both reads twice.
drop index audit_log_by_project;
create index audit_log_by_outcome on audit_log (project_id, outcome, at desc, id desc);
create index audit_log_by_action on audit_log (project_id, action, outcome, at desc, id desc);
create index audit_log_by_actor on audit_log (project_id, actor_id, outcome, at desc, id desc);
create index audit_log_by_actor_and_action on audit_log (project_id, actor_id, action, outcome, at desc, id desc);

-- For retention. Rows come in the order of time.
create index audit_log_by_time on audit_log using brin (at) with (autosummarize = on);

-- Inference tokens were recorded as service accounts.
update audit_log set actor_type = 'inference_token'
  from tokens
 where audit_log.actor_type = 'service_account' and tokens.kind = 'inference' and tokens.id::text = audit_log.actor_id;
