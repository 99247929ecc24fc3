-- Let go of jobs that go the same way; expects holding[], that way, the actor; returns those whose token still held.
with given as materialized (
  -- The clock is read for each row: an item finishes when it finishes, not when its chunk does.
  select h.id, h.token, h.attempt, clock() as at from unnest(%(holdings)s::holding[]) as h
),
moved as (
  update standing s
     set state = %(became)s::state, ready = %(ready)s,
         not_before_at = case when %(delay_s)s::float8 > 0 then g.at + make_interval(secs => %(delay_s)s::float8) end,
         claim_token = null, claimed_by = null, claimed_at = null,
         attempt_count = s.attempt_count + %(attempt_add)s::int2, stage_attempts = s.stage_attempts + %(attempt_add)s::int2,
         free_requeues = s.free_requeues + %(free_add)s::int2, reason = %(reason)s::int2,
         first_failure_at = case when %(failure)s::jsonb is null then s.first_failure_at
                                 else coalesce(s.first_failure_at, g.at) end,
         last_failure_at = case when %(failure)s::jsonb is null then s.last_failure_at else g.at end,
         last_failure = coalesce(%(failure)s::jsonb, s.last_failure),
         seq = s.seq + 1, last_event_at = greatest(g.at, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, %(kind)s::int2, g.token, g.attempt, s.stage, %(reason)s::int2, %(actor)s,
                      greatest(g.at, s.last_event_at), %(facts)s)
    from given g
   -- The array is one walk along the index; the join alone would be a search for each.
   where s.id = any(array(select id from given)) and s.id = g.id and s.claim_token = g.token and s.state = %(was)s::state
  returning s.id, s.home_id, s.seq, s.last_event_at, s.head, s.stage, s.queue_key, g.attempt, g.token, g.at
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, facts, hash)
  select id, home_id, seq, last_event_at, %(kind)s, %(reason)s, stage, attempt, token, %(actor)s, %(facts)s, head from moved
),
counted as (
  insert into queue_delta (at, queue_key, state, n)
  select k.at, k.queue_key, d.state, d.sign * k.n
    from (select min(at) as at, queue_key, count(*) as n from moved group by queue_key) k
   cross join (values (%(was)s::state, -1), (%(became)s::state, 1)) as d (state, sign)
)
select id, at from moved
