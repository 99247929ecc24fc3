-- Take jobs to their next stage, ready at once, with a fresh budget; expects holding[], the actor; returns those whose token held.
with given as materialized (
  select h.id, h.token, h.attempt, clock() as at from unnest(%(holdings)s::holding[]) as h
),
moved as (
  update standing s
     set state = 'queued', ready = true, not_before_at = null, claim_token = null, claimed_by = null, claimed_at = null,
         stage = s.stage + 1, queue_key = j.queue_keys[s.stage + 2], stage_attempts = 0, reason = %(reason)s::int2,
         first_failure_at = null, seq = s.seq + 1, last_event_at = greatest(g.at, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, %(kind)s::int2, g.token, g.attempt, s.stage, %(reason)s::int2, %(actor)s,
                      greatest(g.at, s.last_event_at), null)
    from given g join job j using (id)
   -- The array is one walk along the index; the join alone would be a search for each.
   where s.id = any(array(select id from given)) and s.id = g.id and s.claim_token = g.token and s.state = %(was)s::state
  returning s.id, s.home_id, s.seq, s.last_event_at, s.head, (s.stage - 1)::int2 as stage, j.queue_keys[s.stage] as was_key,
            s.queue_key, g.attempt, g.token, g.at
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, hash)
  select id, home_id, seq, last_event_at, %(kind)s, %(reason)s, stage, attempt, token, %(actor)s, head from moved
),
counted as (
  insert into queue_delta (at, queue_key, state, n)
  select min(at), was_key, %(was)s::state, -count(*) from moved group by was_key
  union all
  select min(at), queue_key, 'queued', count(*) from moved group by queue_key
)
select id, at from moved
