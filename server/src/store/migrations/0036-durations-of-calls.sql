-- How calls of apps went, for charts of errors and latency, beside how many there were.

alter table app_uses
  -- Calls that were answered with status 500 or above, or cut off.
  add column failures double precision not null default 0,
  -- Answered calls by their duration, a number for each bucket; null: none, or an earlier version measured.
  add column durations double precision[];
