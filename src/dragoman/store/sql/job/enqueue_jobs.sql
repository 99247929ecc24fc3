-- Create jobs, each with its standing and its first event; expects new_job[] and the actor; returns the ids that are new.
with given as materialized (
  select j.*, clock() as at from unnest(%(jobs)s::new_job[]) as j
),
made as (
  insert into job (id, pipeline, unit, home_id, mode, account, lane, source_locale, target_locale, group_key, routing,
                   queue_keys, max_attempts, request_id, recipient_id, changelist_id, review_version, input_hash, replay_of,
                   created_by, created_at)
  select id, pipeline, unit, home_id, mode, account, lane, source_locale, target_locale, group_key, routing,
         coalesce(queue_keys, array[queue_key]), max_attempts, request_id, recipient_id, changelist_id, review_version, input_hash, replay_of,
         %(actor)s, at
    from given
  on conflict on constraint job_unit do nothing
  returning id
),
placed as (
  insert into standing (id, home_id, pipeline, not_before_at, sort_at, created_at, last_event_at, unit_lock, queue_key,
                        seq, state, stage, priority, attempt_count, stage_attempts, free_requeues, max_attempts, reason, ready,
                        head)
  select g.id, g.home_id, g.pipeline,
         case when g.delay_s > 0 then g.at + make_interval(secs => g.delay_s) end, coalesce(g.sort_at, g.at), g.at, g.at,
         g.unit_lock, g.queue_key,
         1, 'queued', g.stage, g.priority, 0, 0, 0, g.max_attempts, 0::int2, coalesce(g.delay_s, 0) <= 0,
         chain('\x', g.id, 1, %(kind)s::int2, null, 1::int2, g.stage, 0::int2, %(actor)s, g.at, g.facts)
    from given g join made using (id)
  returning id, home_id, stage, queue_key, last_event_at, head
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, actor, facts, hash)
  select p.id, p.home_id, 1, p.last_event_at, %(kind)s, 0, p.stage, 1, %(actor)s, g.facts, p.head
    from placed p join given g using (id)
),
counted as (
  insert into queue_delta (at, queue_key, state, n)
  select min(last_event_at), queue_key, 'queued', count(*) from placed group by queue_key
)
select id from made
