-- Since when requests of a certificate fail.

alter table certificates
  -- The first failed try since the last success; null: no try has failed since then.
  add column failing_since timestamptz;
