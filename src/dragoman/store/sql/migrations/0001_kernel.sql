-- The kernel: intent, standing, event, batch, delivery, and what forbids; expects an empty schema; returns nothing.

-- The one clock. A test replaces its body; the planner inlines it, so it costs nothing.
create function clock() returns timestamptz language sql volatile parallel safe
  as 'select clock_timestamp()';

-- The one formula of the chain: immutable parts only, so that any engine may compute it in a SET.
create function chain(
  head bytea, job uuid, seq int, kind smallint, token uuid, attempt smallint, stage smallint,
  reason smallint, actor uuid, at timestamptz, facts bytea
) returns bytea language sql immutable parallel safe as $$
  select sha256(
    head || uuid_send(job) || int4send(seq) || int2send(kind)
    || uuid_send(coalesce(token, '00000000-0000-0000-0000-000000000000'))
    || int2send(attempt) || int2send(stage) || int2send(reason) || uuid_send(actor)
    || timestamptz_send(at) || coalesce(facts, '\x'::bytea))
$$;

create function refuse() returns trigger language plpgsql as $$
begin
  raise exception using errcode = 'DR001', message = tg_argv[0], constraint = tg_argv[0], table = tg_table_name;
end $$;

create type state as enum (
  'queued',           -- enqueue, retry, defer, release, next stage
  'processing',       -- queued -> processing: claim
  'batch_submitted',  -- processing -> batch_submitted: submit
  'completed',        -- processing, batch_submitted -> completed: complete
  'failed',           -- processing, batch_submitted -> failed: bury
  'canceled'          -- any but the last three -> canceled: cancel
);
create type mode as enum ('async', 'batch');
create type lane as enum ('same_language', 'cross_language');

-- Which cell of an installation this schema is, and which life of its data.
create table cell (
  only_one bool primary key default true check (only_one),
  name text not null,
  incarnation uuid not null,
  created_at timestamptz not null
);

-- The words behind the small numbers that enter the chain.
create table word (about text not null, id smallint not null, name text not null, primary key (about, id));

-- Everybody who acts: a worker process, an operator, a door.
create table actor (
  id uuid primary key,
  role text not null,
  name text not null,
  created_at timestamptz not null
);

-- A worker's lease. It is renewed on the worker's own line, and moves no claim.
create table worker (
  id uuid primary key references actor,
  backend_pid int,
  backend_start timestamptz,
  started_at timestamptz not null,
  expires_at timestamptz not null,
  stopped_at timestamptz
);

create table pipeline (id smallint primary key, name text not null unique, stages text[] not null);

create table queue (
  key int primary key,
  pipeline smallint not null references pipeline,
  stage smallint not null,
  mode mode not null,
  provider text not null,
  account text not null,
  model text not null,
  unique (pipeline, stage, mode, provider, account, model)
);

-- Intent. Nobody holds UPDATE on it.
create table job (
  id uuid primary key,
  pipeline smallint not null references pipeline,
  unit text not null,
  home_id uuid not null,
  mode mode not null,
  account text not null,
  lane lane,
  source_locale text,
  target_locale text,
  group_key text,
  routing jsonb not null,
  queue_keys int[] not null,
  max_attempts smallint not null check (max_attempts between 1 and 100),
  request_id uuid,
  recipient_id uuid,
  changelist_id text,
  review_version int,
  input_hash bytea,
  replay_of uuid,
  created_by uuid not null,
  created_at timestamptz not null,
  constraint job_unit unique (pipeline, unit),
  constraint job_locales check ((source_locale is null) = (target_locale is null)
    and (source_locale is null) = (lane is null)
    and source_locale not in ('unknown', 'und', 'mul', 'zxx', '')
    and target_locale not in ('unknown', 'und', 'mul', 'zxx', '')
    and (lane = 'same_language') = (source_locale = target_locale))
);
create index job_request on job (request_id) where request_id is not null;
create index job_changelist on job (changelist_id, review_version) where changelist_id is not null;

create trigger insert_only before update on job for each row execute function refuse('job_is_insert_only');

-- Where a job stands: the one hot row.
create table standing (
  id uuid primary key,
  home_id uuid not null,
  claim_token uuid,
  claimed_by uuid,
  not_before_at timestamptz,
  claimed_at timestamptz,
  sort_at timestamptz not null,
  created_at timestamptz not null,
  last_event_at timestamptz not null,
  unit_lock bigint not null,
  queue_key int not null,
  seq int not null,
  state state not null,
  pipeline smallint not null,
  stage smallint not null,
  priority smallint not null,
  attempt_count smallint not null,
  stage_attempts smallint not null,
  free_requeues smallint not null,
  max_attempts smallint not null,
  reason smallint not null,
  ready bool not null,
  provider_batch_id text,
  first_failure_at timestamptz,
  last_failure_at timestamptz,
  last_failure jsonb,
  head bytea not null,
  constraint standing_claim check (
    (claim_token is not null) = (state in ('processing', 'batch_submitted'))
    and (claimed_by is not null) = (state = 'processing')
    and (claimed_at is not null) = (state = 'processing')
    and (not ready or state = 'queued')
    and (state <> 'batch_submitted' or provider_batch_id is not null))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.05);
create index standing_ready on standing (queue_key, priority desc, sort_at, id) where ready;
create index standing_due on standing (not_before_at) where not_before_at is not null and not ready;

create trigger known_edge before update on standing for each row when (
  old.state <> new.state and (old.state, new.state) not in (
    ('queued', 'processing'),
    ('processing', 'batch_submitted'), ('processing', 'completed'), ('processing', 'failed'), ('processing', 'queued'),
    ('batch_submitted', 'processing'), ('batch_submitted', 'completed'), ('batch_submitted', 'failed'),
    ('batch_submitted', 'queued'),
    ('queued', 'canceled'), ('processing', 'canceled'), ('batch_submitted', 'canceled'))
) execute function refuse('unknown_edge');

create trigger fixed_columns before update on standing for each row when (
  old.id <> new.id or old.home_id <> new.home_id or old.unit_lock <> new.unit_lock
  or old.pipeline <> new.pipeline or old.max_attempts <> new.max_attempts or old.created_at <> new.created_at or old.priority <> new.priority or old.sort_at <> new.sort_at
  or old.provider_batch_id is not null and old.provider_batch_id is distinct from new.provider_batch_id
) execute function refuse('column_is_fixed');

create trigger moves_forward before update on standing for each row when (
  new.seq not in (old.seq, old.seq + 1)
  or (new.seq = old.seq) <> (new.head = old.head)
  or old.state <> new.state and new.seq = old.seq
  or new.last_event_at < old.last_event_at
  or new.stage < old.stage or new.attempt_count < old.attempt_count or new.free_requeues < old.free_requeues
  or new.stage = old.stage and new.stage_attempts < old.stage_attempts
) execute function refuse('moves_forward_only');

create trigger final_is_final before update on standing for each row when (
  old.state in ('completed', 'failed', 'canceled')
  and (new.state <> old.state or new.stage <> old.stage or new.ready or new.queue_key <> old.queue_key
    or new.not_before_at is distinct from old.not_before_at or new.attempt_count <> old.attempt_count
    or new.stage_attempts <> old.stage_attempts or new.free_requeues <> old.free_requeues
    or new.provider_batch_id is distinct from old.provider_batch_id or new.reason <> old.reason
    or new.first_failure_at is distinct from old.first_failure_at
    or new.last_failure_at is distinct from old.last_failure_at or new.last_failure is distinct from old.last_failure)
) execute function refuse('final_is_final');

-- What happened, by month. Append-only, metadata only, chained per job.
create table event (
  job_id uuid not null,
  home_id uuid not null,
  seq int not null,
  at timestamptz not null,
  kind smallint not null,
  reason smallint not null,
  stage smallint not null,
  attempt smallint not null,
  token uuid,
  actor uuid not null,
  facts bytea,
  hash bytea not null
) partition by range (at);

-- Months are made ahead, by the owner alone: create first, attach under a short lock.
create function ensure_partitions(ahead int default 3) returns int language plpgsql security definer
  set search_path from current as $$
declare
  first_day date; made int := 0; part text;
begin
  perform set_config('lock_timeout', '2s', true);
  for first_day in
    select (date_trunc('month', clock() at time zone 'utc') + make_interval(months => k))::date
      from generate_series(0, ahead) as k
  loop
    part := 'event_' || to_char(first_day, 'YYYY_MM');
    if to_regclass(part) is null then
      execute format('create table %I (like event including defaults including constraints)', part);
      execute format('create unique index %I on %I (job_id, seq)', part || '_seq', part);
      execute format('alter table event attach partition %I for values from (%L) to (%L)', part,
        first_day || ' 00:00+00', (first_day + interval '1 month')::date || ' 00:00+00');
      made := made + 1;
    end if;
  end loop;
  return made;
end $$;
select ensure_partitions();

create trigger append_only before update on event for each row execute function refuse('events_are_append_only');

-- Sums: each move writes what it changed, the sweeper folds it.
create table queue_delta (at timestamptz not null, queue_key int not null, state state not null, n int not null);
create table queue_sum (queue_key int not null, state state not null, n bigint not null, primary key (queue_key, state));

create table stage_result (
  job_id uuid not null,
  stage smallint not null,
  home_id uuid not null,
  reference text not null,
  sha256 bytea not null,
  created_at timestamptz not null,
  primary key (job_id, stage)
);

create table dead_letter (
  id uuid primary key,
  job_id uuid not null,
  home_id uuid not null,
  pipeline smallint not null,
  stage smallint not null,
  stage_name text not null,
  error_class text not null,
  code text not null,
  reason text not null check (reason in ('exhausted', 'not_retryable')),
  attempts smallint not null,
  last_stack text[] not null check (cardinality(last_stack) > 0),
  sanitized_context jsonb not null,
  first_failure_at timestamptz not null,
  last_failure_at timestamptz not null,
  state text not null default 'open' check (state in ('open', 'triaged', 'remediated', 'replayed', 'escalated', 'resolved')),
  created_at timestamptz not null,
  check (first_failure_at <= last_failure_at)
);
create index dead_letter_open on dead_letter (created_at) where state <> 'resolved';
create unique index dead_letter_job on dead_letter (job_id);

create table alert (
  id uuid primary key,
  kind text not null,
  subject text not null,
  severity text not null check (severity in ('notice', 'act', 'page')),
  facts jsonb not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  times int not null default 1,
  closed_at timestamptz
);
create unique index alert_open on alert (subject, kind) where closed_at is null;

create table run (
  id uuid primary key,
  role text not null,
  worker_id uuid not null,
  started_at timestamptz not null,
  finished_at timestamptz,
  max_jobs_per_run int,
  max_runtime_s int,
  counts jsonb not null default '{}',
  skipped text
);
create index run_recent on run (role, started_at desc);

-- One row per submission. Ours first, theirs when it is known.
create table batch (
  id uuid primary key,
  nonce text not null unique,
  provider text not null,
  adapter_kind text not null,
  base_url text,
  account text not null,
  model text not null,
  group_key text not null,
  state text not null check (state in
    ('submitting', 'submit_unknown', 'submitted', 'running', 'completed', 'failed', 'canceled', 'expired', 'released')),
  token uuid not null,
  claimed_by uuid not null,
  items int not null,
  payload_sha256 bytea,
  payload_bytes bigint,
  input_file_id text,
  provider_batch_id text,
  provider_status text,
  result_files text[] not null default '{}',
  created_at timestamptz not null,
  started_at timestamptz,
  deadline_at timestamptz,
  incarnation uuid,
  asked_at timestamptz,
  absences smallint not null default 0,
  submitted_at timestamptz,
  polled_at timestamptz,
  ended_at timestamptz,
  downloads smallint not null default 0,
  closed_at timestamptz,
  files_deleted_at timestamptz,
  constraint batch_known check ((provider_batch_id is not null) = (state not in ('submitting', 'submit_unknown', 'released'))),
  constraint batch_started check (started_at is null or payload_sha256 is not null and deadline_at is not null)
);
create unique index batch_theirs on batch (account, provider_batch_id) where provider_batch_id is not null;
create index batch_open on batch (created_at) where closed_at is null;

create trigger fixed_columns before update on batch for each row when (
  old.id <> new.id or old.nonce <> new.nonce or old.created_at <> new.created_at
  or old.provider_batch_id is not null and old.provider_batch_id is distinct from new.provider_batch_id
  or old.payload_sha256 is not null and old.payload_sha256 is distinct from new.payload_sha256
  or old.started_at is not null and old.started_at is distinct from new.started_at
) execute function refuse('column_is_fixed');

create table batch_item (
  batch_id uuid not null references batch,
  item_index int not null,
  job_id uuid not null,
  home_id uuid not null,
  token uuid not null,
  attempt smallint not null,
  call smallint not null default 0,
  custom_id text not null check (length(custom_id) <= 64),
  state text not null default 'open' check (state in ('open', 'done', 'failed', 'requeued', 'released', 'ignored')),
  code text,
  settled_at timestamptz,
  primary key (batch_id, item_index),
  unique (batch_id, custom_id)
);
create unique index batch_item_open on batch_item (job_id, call) where state = 'open';
create index batch_item_job on batch_item (job_id);

-- The outbox: one row per (changelist, recipient, version), frozen before the first send.
create table delivery (
  id uuid primary key,
  changelist_id text not null,
  recipient text not null,
  review_version int not null,
  home_id uuid not null,
  job_id uuid not null,
  channel text not null,
  guarantee text not null check (guarantee in ('key', 'lookup', 'neither')),
  key text not null unique,
  payload bytea not null,
  payload_sha256 bytea not null,
  state text not null check (state in ('queued', 'sending', 'sent', 'unknown', 'reconciling', 'failed', 'canceled')),
  attempt_count smallint not null default 0,
  max_attempts smallint not null,
  next_attempt_at timestamptz,
  claim_token uuid,
  claimed_by uuid,
  claimed_at timestamptz,
  started_at timestamptz,
  first_started_at timestamptz,
  deadline_at timestamptz,
  incarnation uuid,
  doubted_at timestamptz,
  asked_at timestamptz,
  notification_id text,
  notified_at timestamptz,
  evidence jsonb,
  last_failure jsonb,
  created_at timestamptz not null,
  unique (changelist_id, recipient, review_version),
  constraint sent_has_evidence check (state <> 'sent' or notification_id is not null and notified_at is not null),
  constraint started_has_deadline check (state <> 'sending' or started_at is not null and deadline_at is not null
    and claim_token is not null)
);
create index delivery_due on delivery (next_attempt_at nulls first, created_at) where state = 'queued';
create index delivery_doubt on delivery (deadline_at) where state in ('sending', 'unknown');
create index delivery_job on delivery (job_id);

create trigger fixed_columns before update on delivery for each row when (
  old.id <> new.id or old.changelist_id <> new.changelist_id or old.recipient <> new.recipient
  or old.review_version <> new.review_version or old.key <> new.key or old.payload <> new.payload
  or old.payload_sha256 <> new.payload_sha256 or old.created_at <> new.created_at
) execute function refuse('column_is_fixed');
create trigger send_then_mark before update on delivery for each row when (
  new.notified_at is not null and old.notified_at is null and old.first_started_at is null
) execute function refuse('send_comes_before_mark');

-- What statements take many of: one element carries a row, so that nothing can shift.
create type ticket as (id uuid, token uuid);
create type holding as (id uuid, token uuid, attempt smallint);
create type note as (id uuid, token uuid, kind smallint, reason smallint, facts bytea);
create type stage_done as (job_id uuid, stage smallint, reference text, sha256 bytea);
create type burial as (
  id uuid, dead_letter_id uuid, stage smallint, stage_name text, attempts smallint, error_class text, code text, reason text,
  last_stack text, context jsonb
);
create type sending as (id uuid, token uuid, facts bytea);
create type item as (job_id uuid, token uuid, item_index int, call smallint, custom_id text);
create type settled as (batch_id uuid, item_index int, state text, code text);
create type new_job as (
  id uuid, pipeline smallint, unit text, home_id uuid, mode mode, account text, lane lane, source_locale text,
  target_locale text, group_key text, routing jsonb, max_attempts smallint, request_id uuid, recipient_id uuid,
  changelist_id text, review_version int, input_hash bytea, replay_of uuid, stage smallint, queue_key int, queue_keys int[],
  unit_lock bigint, priority smallint, delay_s float8, facts bytea
);
