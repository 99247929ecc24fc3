-- A person says whether a message has arrived: it is marked with the person's evidence, or waits for one more send; expects the
-- doubt as it was read, and a fresh token; returns its job, or nothing when it was settled meanwhile.
with settled as (
  update delivery
     set state = case when %(has_arrived)s then 'sent' else 'queued' end, claim_token = %(fresh)s, claimed_by = null, claimed_at = null,
         next_attempt_at = null, notification_id = case when %(has_arrived)s then %(evidence_id)s end,
         notified_at = case when %(has_arrived)s then clock() end,
         evidence = case when %(has_arrived)s then %(evidence)s::jsonb end,
         doubted_at = case when %(has_arrived)s then doubted_at end, repeat_until = case when %(has_arrived)s then repeat_until end
   where id = %(id)s and claim_token is not distinct from %(token)s and state in ('unknown', 'reconciling')
  returning job_id, clock() as at
),
moved as (
  update standing s
     set seq = s.seq + 1, last_event_at = greatest(t.at, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, %(kind)s::int2, %(fresh)s, (s.stage_attempts + 1)::int2, s.stage, %(reason)s::int2,
                      %(actor)s, greatest(t.at, s.last_event_at), %(facts)s)
    from settled t where s.id = t.job_id
  returning s.id, s.home_id, s.seq, s.last_event_at, s.head, s.stage, s.stage_attempts
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, facts, hash)
  select id, home_id, seq, last_event_at, %(kind)s, %(reason)s, stage, stage_attempts + 1, %(fresh)s, %(actor)s, %(facts)s, head
    from moved
)
select job_id from settled
