-- A message that did not arrive waits or fails; expects its token and the new state; returns its job. Proof that the target never
-- got it ends the doubt, clears what half a mark has left, and lets the key begin anew.
with left_over as (
  update delivery
     set state = %(became)s, last_failure = %(failure)s::jsonb, claimed_by = null, claimed_at = null, notified_at = null,
         doubted_at = case when not %(is_proof)s then doubted_at end, repeat_until = case when not %(is_proof)s then repeat_until end,
         notification_id = case when not %(is_proof)s then notification_id end, evidence = null,
         next_attempt_at = case when %(delay_s)s::float8 is not null then clock() + make_interval(secs => %(delay_s)s::float8) end
   where id = %(id)s and claim_token = %(token)s and state in ('sending', 'unknown', 'reconciling')
     and (notified_at is null or state = 'reconciling' and %(is_proof)s)
  returning job_id, clock() as at
),
moved as (
  update standing s
     set seq = s.seq + 1, last_event_at = greatest(t.at, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, %(kind)s::int2, %(token)s, (s.stage_attempts + 1)::int2, s.stage, %(reason)s::int2,
                      %(actor)s, greatest(t.at, s.last_event_at), %(facts)s)
    from left_over t where s.id = t.job_id
  returning s.id, s.home_id, s.seq, s.last_event_at, s.head, s.stage, s.stage_attempts
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, facts, hash)
  select id, home_id, seq, last_event_at, %(kind)s, %(reason)s, stage, stage_attempts + 1, %(token)s, %(actor)s, %(facts)s, head
    from moved
)
select job_id from left_over
