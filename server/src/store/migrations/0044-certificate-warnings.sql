-- When the operator was last warned that a certificate ends and is not renewed; and why a certificate is to be revoked, until it is.

alter table certificates
  add column warned_at timestamptz,
  add column revocation text;
