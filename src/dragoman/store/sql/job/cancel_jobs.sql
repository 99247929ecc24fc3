-- Cancel jobs that are not final; expects ids and the actor; returns those that were canceled.
-- Cancel wins over a result in flight, and nobody is told any more.
with given as materialized (
  select s.id, s.state as was, clock() as at from standing s
   where s.id = any(%(ids)s) and s.state not in ('completed', 'failed', 'canceled')
   order by s.id for update
),
moved as (
  update standing s
     set state = 'canceled', ready = false, not_before_at = null, claim_token = null, claimed_by = null, claimed_at = null,
         reason = %(reason)s, seq = s.seq + 1, last_event_at = greatest(g.at, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, %(kind)s::int2, null, (s.stage_attempts + 1)::int2, s.stage, %(reason)s::int2,
                      %(actor)s, greatest(g.at, s.last_event_at), null)
    from given g
   where s.id = g.id and s.state = g.was
  returning s.id, s.home_id, s.seq, s.last_event_at, s.head, s.stage, s.stage_attempts, s.queue_key, g.was
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, actor, hash)
  select id, home_id, seq, last_event_at, %(kind)s, %(reason)s, stage, stage_attempts + 1, %(actor)s, head from moved
),
untold as (
  update delivery d set state = 'canceled', next_attempt_at = null
    from moved where d.job_id = moved.id and d.state = 'queued' and d.notified_at is null
),
counted as (
  insert into queue_delta (at, queue_key, state, n)
  select min(last_event_at), queue_key, was, -count(*) from moved group by queue_key, was
  union all
  select min(last_event_at), queue_key, 'canceled', count(*) from moved group by queue_key
)
select id from moved
