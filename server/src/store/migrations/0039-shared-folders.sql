-- The folders and files of the repository, apart from gitPath, that a build took its files from: a push that changes one of them
-- concerns the app. Null: the build has not fetched its files, or an earlier version did.

alter table builds add column shared_paths jsonb;
