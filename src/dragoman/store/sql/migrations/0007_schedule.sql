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

-- A run's record: its limits, where each job it took went, and by which provider's model the jobs are made.
alter table run add column models jsonb not null default '{}';
alter table run add constraint run_is_bounded check (skipped is not null or (max_jobs_per_run > 0) is true);

create view run_log as
select id as run_id, role, worker_id, started_at, finished_at, max_jobs_per_run, max_runtime_s,
       coalesce((counts ->> 'claimed')::int, 0) as claimed_count,
       coalesce((counts ->> 'succeeded')::int, 0) as succeeded_count,
       coalesce((counts ->> 'failed')::int, 0) as failed_count,
       coalesce((counts ->> 'requeued')::int, 0) as requeued_count,
       coalesce((counts ->> 'submitted')::int, 0) as submitted_count,
       coalesce((counts ->> 'deferred')::int, 0) as deferred_count,
       coalesce((counts ->> 'noop')::int, 0) as noop_count,
       coalesce((counts ->> 'lost')::int, 0) as lost_count,
       coalesce((counts ->> 'capacity_errors')::int, 0) as capacity_errors,
       models, skipped
  from run;
grant select on run_log to dragoman_operator;

-- How jobs come in: fair_every_s is the distance that a home's jobs keep, null is by age; and how many of a home may wait.
alter table cell add column fair_every_s float8 check (fair_every_s > 0 and fair_every_s < 1e9);
alter table cell add column max_waiting_per_home int not null default 10000 check (max_waiting_per_home > 0);
grant update (fair_every_s, max_waiting_per_home) on cell to dragoman_operator;
alter type new_job add attribute sort_at timestamptz;
-- What waits is ready or waits for a time. A predicate on the state would cost every finish its heap-only update.
create index standing_home on standing (home_id, sort_at) where ready or not_before_at is not null;
