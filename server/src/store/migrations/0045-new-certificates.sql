-- Whose name a certificate is first ordered for, and when: how many new names of one project get certificates in a week is limited.

alter table certificates
  add column project_id text,
  add column first_order_at timestamptz;
