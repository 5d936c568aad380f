-- A build that makes a release of the artifact that takes the calls, with other settings: it fetches and builds nothing.

alter table builds add column keeps_artifact boolean not null default false;
