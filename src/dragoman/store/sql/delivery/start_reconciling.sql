-- From here on nothing is sent until somebody has looked; expects the message as it was read, and a fresh token; returns its job.
-- Of a send that nobody wrote down the earliest moment counts.
with found as (
  update delivery
     set state = 'reconciling', claim_token = %(fresh)s, claimed_by = null, claimed_at = null, next_attempt_at = null, asked_at = null,
         doubted_at = coalesce(doubted_at, clock()), first_started_at = coalesce(first_started_at, created_at),
         last_failure = %(failure)s::jsonb
   where id = %(id)s and claim_token is not distinct from %(token)s and state = %(state)s
     and notified_at is not distinct from %(notified_at)s
  returning job_id, clock() as at
),
moved as (
  update standing s
     set seq = s.seq + 1, last_event_at = greatest(t.at, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, %(kind)s::int2, %(fresh)s, (s.stage_attempts + 1)::int2, s.stage, %(reason)s::int2,
                      %(actor)s, greatest(t.at, s.last_event_at), %(facts)s)
    from found t where s.id = t.job_id
  returning s.id, s.home_id, s.seq, s.last_event_at, s.head, s.stage, s.stage_attempts
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, facts, hash)
  select id, home_id, seq, last_event_at, %(kind)s, %(reason)s, stage, stage_attempts + 1, %(fresh)s, %(actor)s, %(facts)s, head
    from moved
)
select job_id from found
