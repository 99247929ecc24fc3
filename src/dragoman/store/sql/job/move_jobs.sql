-- Let go of jobs: each goes where its outcome sends it; expects move[] and the actor; returns those whose token still held.
with given as materialized (
  -- The clock is read for each row: an item finishes when it finishes, not when its chunk does.
  select m.*, clock() as at from unnest(%(moves)s::move[]) as m
),
moved as (
  update standing s
     set state = g.became, stage = g.stage, queue_key = g.queue_key, ready = g.ready,
         not_before_at = case when g.delay_s > 0 then g.at + make_interval(secs => g.delay_s) end,
         claim_token = null, claimed_by = null, claimed_at = null,
         attempt_count = s.attempt_count + g.attempt_add,
         stage_attempts = case when g.stage > s.stage then 0 else s.stage_attempts + g.attempt_add end,
         free_requeues = s.free_requeues + g.free_add, reason = g.reason,
         first_failure_at = case when g.stage > s.stage then null
                                 when g.failure is null then s.first_failure_at
                                 else coalesce(s.first_failure_at, g.at) end,
         last_failure_at = case when g.failure is null then s.last_failure_at else g.at end,
         last_failure = coalesce(g.failure, s.last_failure),
         seq = s.seq + 1, last_event_at = greatest(g.at, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, g.kind, g.token, g.attempt, g.was_stage, g.reason, %(actor)s,
                      greatest(g.at, s.last_event_at), g.facts)
    from given g
   where s.id = g.id and s.claim_token = g.token and s.state = g.was
  returning s.id, s.home_id, s.seq, s.last_event_at, s.head, g.kind, g.reason, g.was_stage, g.attempt, g.token, g.facts,
            g.was_key, g.was, s.queue_key, s.state, g.at
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, facts, hash)
  select id, home_id, seq, last_event_at, kind, reason, was_stage, attempt, token, %(actor)s, facts, head from moved
),
counted as (
  insert into queue_delta (at, queue_key, state, n)
  select min(at), was_key, was, -count(*) from moved group by was_key, was
  union all
  select min(at), queue_key, state, count(*) from moved group by queue_key, state
)
select id, at from moved
