-- Nobody knows whether the message arrived; expects its token; returns its job, or nothing if it moved on.
with doubted as (
  update delivery
     set state = 'unknown', doubted_at = coalesce(doubted_at, clock()), asked_at = null, last_failure = %(failure)s::jsonb,
         claimed_by = null, claimed_at = null
   where id = %(id)s and claim_token = %(token)s and state = 'sending'
  returning job_id, clock() as at
),
moved as (
  update standing s
     set seq = s.seq + 1, last_event_at = greatest(t.at, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, %(kind)s::int2, %(token)s, (s.stage_attempts + 1)::int2, s.stage, %(reason)s::int2,
                      %(actor)s, greatest(t.at, s.last_event_at), %(facts)s)
    from doubted t where s.id = t.job_id
  returning s.id, s.home_id, s.seq, s.last_event_at, s.head, s.stage, s.stage_attempts
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, facts, hash)
  select id, home_id, seq, last_event_at, %(kind)s, %(reason)s, stage, stage_attempts + 1, %(token)s, %(actor)s, %(facts)s, head
    from moved
)
select job_id from doubted
