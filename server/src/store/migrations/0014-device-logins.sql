-- Device logins: a command line shows a code, and a person who is signed in elsewhere lets it sign in as them.

-- A row is there until the device has taken its tokens, or an hour after its end.
create table device_logins (
  id uuid primary key,
  -- SHA-256 of what only the device has.
  device_code_hash bytea not null unique check (length(device_code_hash) = 32),
  -- What the person compares. Of no use without being signed in.
  user_code text not null unique,
  state text not null default 'waiting' check (state in ('waiting', 'approved', 'denied')),
  -- What the device says it is, and where it asked from.
  client text not null,
  address text,
  -- In which session it was decided. When that session ends before the device has its own, so does the approval.
  session_id uuid references person_sessions on delete cascade,
  created_at timestamptz not null,
  expires_at timestamptz not null check (expires_at > created_at),
  check ((state = 'waiting') = (session_id is null))
);
create index device_logins_by_end on device_logins (expires_at);
create index device_logins_by_session on device_logins (session_id) where session_id is not null;
