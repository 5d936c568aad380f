-- Pages of app logs are ordered by time, within an app or within one of its replicas; following goes by the primary key.

drop index app_logs_by_app;
create index app_logs_by_app on app_logs (app_id, at, id);
create index app_logs_by_replica on app_logs (replica_id, at, id);
