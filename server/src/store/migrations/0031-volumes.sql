-- Files of the persistent storage through the API: its size, uploads in parts, and addresses to download from.

create table volumes (
  project_id text primary key references projects (id),
  size_gb integer not null check (size_gb between 1 and 1000000)
);

create table volume_uploads (
  id uuid primary key,
  project_id text not null references projects (id),
  -- Within the volume, without a slash at its start.
  file_path text not null check (length(file_path) between 1 and 4096),
  part_count integer not null check (part_count between 0 and 10000),
  -- SHA-256 of the key in the addresses that take the parts.
  key_hash bytea not null unique check (length(key_hash) = 32),
  created_at timestamptz not null default clock_timestamp(),
  completed_at timestamptz
);
create index volume_uploads_open on volume_uploads (project_id) where completed_at is null;

-- The parts that are on disk as a whole.
create table volume_upload_parts (
  upload_id uuid not null references volume_uploads (id) on delete cascade,
  number integer not null check (number >= 1),
  size_bytes integer not null check (size_bytes >= 0),
  digest text not null,
  primary key (upload_id, number)
);

create table volume_downloads (
  -- SHA-256 of the key in the address.
  key_hash bytea primary key check (length(key_hash) = 32),
  project_id text not null references projects (id),
  file_path text not null,
  created_at timestamptz not null default clock_timestamp()
);
create index volume_downloads_by_time on volume_downloads (created_at);

create trigger live_project before insert on volumes for each row execute function require_live_project();
create trigger live_project before insert on volume_uploads for each row execute function require_live_project();
create trigger live_project before insert on volume_downloads for each row execute function require_live_project();
