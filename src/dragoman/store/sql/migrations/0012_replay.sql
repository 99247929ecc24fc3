-- The operator's way with dead letters: triage, remedy, replay, resolution; expects the kernel, reviews and roles; returns nothing.

alter table dead_letter
  add category text check (category in ('transient', 'data', 'auth_config', 'defect')),
  add evidence jsonb,
  add sign_off text,
  add is_safe_twice bool,
  add notes text,
  add closed_at timestamptz;

-- What a class of failure may be put down to, and what must be said of the remedy before a replay.
create table remedy (error_class text not null, category text not null, fields text[] not null, primary key (error_class, category));
insert into remedy
select k.error_class, c.category,
       c.fields || case k.error_class when 'NOT_FOUND' then '{metadata,ticket}' else '{ticket}' end::text[]
  from (values
    ('{NETWORK_TIMEOUT,THROTTLED,UPSTREAM_ERROR,CONFLICT,STALE_CLAIM,NOT_EXECUTED,RESULT_MISSING}'::text[],
     '{transient,auth_config,defect}'::text[]),
    ('{ACCOUNT_BLOCKED}', '{transient,auth_config}'),
    ('{SCHEMA_INVALID}', '{data}'),
    ('{OUTPUT_REJECTED}', '{data,defect}'),
    ('{AUTH_DENIED}', '{auth_config}'),
    ('{NOT_FOUND,DELIVERY_REJECTED}', '{data,auth_config}'),
    ('{POLICY_REJECTED}', '{data,auth_config,defect}'),
    ('{RUNTIME_BUG}', '{defect}')
  ) as f (classes, categories)
 cross join unnest(f.classes) as k (error_class)
 cross join (values
    ('transient', '{recovery,capacity}'::text[]),
    ('data', '{correction}'),
    ('auth_config', '{rotated}'),
    ('defect', '{release,staging}')
  ) as c (category, fields)
 where c.category = any(f.categories);
grant select on remedy to dragoman_operator, dragoman_orchestrator;

create index job_replay on job (replay_of) where replay_of is not null;

-- A job and those that it replays, itself first.
create function replay_line(job uuid) returns table (id uuid, depth int) language sql stable as $$
  with recursive line (id, depth) as (
    select job, 0
    union all
    select j.replay_of, l.depth + 1 from line l join job j on j.id = l.id where j.replay_of is not null
  )
  select id, depth from line
$$;

-- Whether the last replay of a job has ended well and everybody was told; or failed, and what came of that is closed.
create function replay_is_settled(job uuid) returns bool language sql stable as $$
  select coalesce((
    select s.state = 'completed'
           and exists (select from delivery d where (d.changelist_id, d.review_version) = (j.changelist_id, j.review_version))
           and not exists (select from delivery d where (d.changelist_id, d.review_version) = (j.changelist_id, j.review_version)
                              and (d.state <> 'sent' or d.notified_at is null))
           or s.state = 'failed' and exists (select from dead_letter l where l.job_id = j.id and l.state = 'resolved')
      from job j join standing s using (id)
     where j.replay_of = job order by j.created_at desc limit 1), false)
$$;

-- The steps in their order, each with what it needs.
create function letter_step() returns trigger language plpgsql as $$
declare
  broken text;
begin
  broken := case
    when (old.state, new.state) not in (
      ('open', 'triaged'), ('escalated', 'triaged'), ('triaged', 'triaged'), ('remediated', 'triaged'), ('triaged', 'remediated'),
      ('remediated', 'replayed'), ('open', 'escalated'), ('triaged', 'escalated'), ('remediated', 'escalated'),
      ('replayed', 'escalated'), ('open', 'resolved'), ('triaged', 'resolved'), ('remediated', 'resolved'),
      ('escalated', 'resolved'), ('replayed', 'resolved')) then 'letter_out_of_order'
    when new.state = 'triaged' and not exists (
      select from remedy r where (r.error_class, r.category) = (new.error_class, new.category)) then 'letter_category'
    when new.state = 'triaged' and old.state = 'escalated' and coalesce(btrim(new.sign_off), '') = '' then 'letter_sign_off'
    when new.state in ('remediated', 'replayed') and (new.evidence is null or exists (
      select from remedy r cross join unnest(r.fields) f
       where (r.error_class, r.category) = (new.error_class, new.category)
         and coalesce(btrim(new.evidence ->> f), '') = '')) then 'letter_evidence'
    when new.state in ('remediated', 'replayed') and new.category is distinct from old.category then 'letter_category'
    when new.state = 'replayed' and new.is_safe_twice is not true then 'letter_unconfirmed'
    when new.state = 'replayed' and not exists (select from job j where j.replay_of = new.job_id) then 'letter_without_replay'
    when new.state = 'resolved' and (coalesce(btrim(new.notes), '') = '' or new.closed_at is null) then 'letter_without_notes'
    when new.state = 'resolved' and old.state = 'replayed' and not replay_is_settled(new.job_id) then 'letter_unverified'
  end;
  if broken is not null then
    raise exception using errcode = 'DR001', message = broken, constraint = broken, table = 'dead_letter';
  end if;
  return new;
end $$;
create trigger in_order before update on dead_letter for each row execute function letter_step();

-- No replay without evidence, of a rewrite, of anything but the same version, or beside another replay.
create function replay_is_ready() returns trigger language plpgsql as $$
begin
  if new.pipeline = 1 or new.request_id is not null
    or not exists (
      select from job o join dead_letter l on l.job_id = o.id
       where o.id = new.replay_of and l.state = 'remediated' and (o.pipeline, o.home_id) = (new.pipeline, new.home_id)
         and o.changelist_id is not distinct from new.changelist_id
         and o.review_version is not distinct from new.review_version)
    or exists (
      select from job j join standing s using (id)
       where j.replay_of = new.replay_of and s.state in ('queued', 'processing', 'batch_submitted')) then
    raise exception using errcode = 'DR001', message = 'replay_not_ready', constraint = 'replay_not_ready', table = 'job';
  end if;
  return new;
end $$;
create trigger replay_is_ready before insert on job for each row when (new.replay_of is not null)
  execute function replay_is_ready();

-- succeeded only when everybody was told, and there is a result to tell of: of this job or of one that it replays.
create or replace function everybody_was_told() returns trigger language plpgsql as $$
begin
  if exists (select from delivery d join job j on (j.changelist_id, j.review_version) = (d.changelist_id, d.review_version)
      where j.id = new.id and d.notified_at is null)
    or not exists (select from replay_line(new.id) l join review_result r on r.job_id = l.id) then
    raise exception using errcode = 'DR001', message = 'succeeded_before_told', constraint = 'succeeded_before_told';
  end if;
  return null;
end $$;

-- The operator writes a job only as a replay; everybody else's rights are what they were.
alter table job enable row level security;
create policy seen on job for select using (true);
create policy enqueued on job for insert to dragoman_orchestrator with check (true);
create policy replayed on job for insert to dragoman_operator with check (replay_of is not null and pipeline <> 1);
grant insert on job, stage_result to dragoman_operator;
grant insert (id, home_id, pipeline, not_before_at, sort_at, created_at, last_event_at, unit_lock, queue_key, seq, state, stage,
  priority, attempt_count, stage_attempts, free_requeues, max_attempts, reason, ready, head) on standing to dragoman_operator;
grant update (state, category, evidence, sign_off, is_safe_twice, notes, closed_at) on dead_letter to dragoman_operator;
grant update (job_id) on review to dragoman_operator;
grant update (job_id, max_attempts) on delivery to dragoman_operator;
-- Whether a redacted diff is still there, never what it says.
grant select (job_id, expires_at) on review_diff to dragoman_operator;

-- Nothing waits at a stage that its pipeline does not have.
create function stage_is_known() returns trigger language plpgsql as $$
begin
  if not exists (select from pipeline p where p.id = new.pipeline and new.stage between 0 and cardinality(p.stages) - 1) then
    raise exception using errcode = 'DR001', message = 'unknown_stage', constraint = 'unknown_stage', table = 'queue';
  end if;
  return new;
end $$;
create trigger stage_is_known before insert on queue for each row execute function stage_is_known();
