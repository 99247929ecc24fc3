-- A message that provably did not arrive waits or fails; expects its token and the new state; returns its job.
with left_over as (
  update delivery
     set state = %(became)s, doubted_at = case when %(is_proof)s then null else doubted_at end, last_failure = %(failure)s::jsonb, claimed_by = null, claimed_at = null,
         next_attempt_at = case when %(delay_s)s::float8 is not null then clock() + make_interval(secs => %(delay_s)s::float8) end
   where id = %(id)s and claim_token = %(token)s and state in ('sending', 'unknown') and notified_at is null
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
