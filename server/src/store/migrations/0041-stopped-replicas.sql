-- Rows of replicas go some time after their end, which this finds.

create index replicas_stopped on replicas (stopped_at) where stopped_at is not null;
