-- Restarts of apps on request, as after a change of secrets. A replica that has seen fewer restarts than its app is replaced.

alter table apps add column restarts integer not null default 0;
alter table replicas add column restarts integer not null default 0;
