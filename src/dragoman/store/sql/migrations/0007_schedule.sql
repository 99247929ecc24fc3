-- When the scheduled roles run; expects the roles; returns nothing.

-- One row per scheduled role and cell: whoever moves next_at has the tick, whatever else runs.
create table schedule (
  role text primary key,
  every_s float8 not null check (every_s > 0 and every_s < 1e9),
  set_by uuid,  -- null: the profile's pace, which follows the profile
  is_paused bool not null default false,
  next_at timestamptz not null,
  ran_at timestamptz,
  asked_at timestamptz,
  asked_by uuid
);

-- A worker takes ticks; only an operator asks for one, pauses, or sets another pace.
grant select, insert (role, every_s, next_at), update (every_s, next_at, ran_at) on schedule to dragoman_worker;
grant select, update (every_s, set_by, is_paused, next_at, asked_at, asked_by) on schedule to dragoman_operator;
