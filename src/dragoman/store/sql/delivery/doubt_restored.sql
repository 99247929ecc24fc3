-- Nobody knows whether a message was sent after the backup; expects it as it was read, and a fresh token; returns its job.
with h as (select id from hold where why <> 'asked' order by held_at desc limit 1),
doubted as (
  update delivery d
     set state = 'unknown', hold_id = h.id, claim_token = %(fresh)s, claimed_by = null, claimed_at = null, next_attempt_at = null,
         doubted_at = coalesce(d.doubted_at, clock()), first_started_at = coalesce(d.first_started_at, clock()),
         deadline_at = clock(), asked_at = null, last_failure = %(failure)s::jsonb
    from h
   where d.id = %(id)s and d.claim_token is not distinct from %(token)s and d.state = %(state)s
     and d.notified_at is null and d.hold_id is distinct from h.id
  returning d.job_id, clock() as at
),
moved as (
  update standing s
     set seq = s.seq + 1, last_event_at = greatest(t.at, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, %(kind)s::int2, %(fresh)s, (s.stage_attempts + 1)::int2, s.stage, %(reason)s::int2,
                      %(actor)s, greatest(t.at, s.last_event_at), %(facts)s)
    from doubted t where s.id = t.job_id
  returning s.id, s.home_id, s.seq, s.last_event_at, s.head, s.stage, s.stage_attempts
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, facts, hash)
  select id, home_id, seq, last_event_at, %(kind)s, %(reason)s, stage, stage_attempts + 1, %(fresh)s, %(actor)s, %(facts)s, head
    from moved
)
select job_id from doubted
