-- Mark a message with its evidence, in one write; expects its token, and whether an unproved mark of it was looked into; returns
-- its job and whether it was in doubt, or nothing if it was told already.
with told as (
  update delivery
     set state = 'sent', notification_id = %(evidence_id)s, notified_at = clock(), evidence = %(evidence)s::jsonb,
         claimed_by = null, claimed_at = null, next_attempt_at = null
   where id = %(id)s and claim_token = %(token)s and state in ('sending', 'unknown', 'reconciling') and (notified_at is null or state = 'reconciling' and %(is_reconciled)s)
  returning job_id, notified_at, doubted_at is not null as was_doubtful
),
moved as (
  update standing s
     set seq = s.seq + 1, last_event_at = greatest(t.notified_at, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, %(kind)s::int2, %(token)s, (s.stage_attempts + 1)::int2, s.stage, %(reason)s::int2,
                      %(actor)s, greatest(t.notified_at, s.last_event_at), %(facts)s)
    from told t where s.id = t.job_id
  returning s.id, s.home_id, s.seq, s.last_event_at, s.head, s.stage, s.stage_attempts
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, facts, hash)
  select id, home_id, seq, last_event_at, %(kind)s, %(reason)s, stage, stage_attempts + 1, %(token)s, %(actor)s, %(facts)s, head
    from moved
)
select job_id, was_doubtful from told
