-- The address that an account with a provider had there when it was connected: how a person tells which one it is.

alter table person_accounts add column email text;
