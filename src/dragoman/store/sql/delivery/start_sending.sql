-- From here on the message may have arrived; expects its token, for how long its key may be repeated, and neither a row that was
-- told, nor one of a canceled job, nor a repeat whose key has ended; returns the deadline, or nothing.
with begun as (
  update delivery
     set state = 'sending', started_at = clock(), first_started_at = coalesce(first_started_at, clock()),
         incarnation = (select incarnation from cell),
         deadline_at = clock() + make_interval(secs => %(deadline_s)s), attempt_count = attempt_count + 1, next_attempt_at = null,
         repeat_until = coalesce(repeat_until, clock() + make_interval(secs => %(repeat_s)s::float8))
   where id = %(id)s and claim_token = %(token)s and state = 'queued' and notified_at is null and notification_id is null
     and (doubted_at is null or repeat_until is null or repeat_until > clock())
     and not exists (select from standing s where s.id = delivery.job_id and s.state = 'canceled')
  returning job_id, deadline_at, started_at
),
moved as (
  update standing s
     set seq = s.seq + 1, last_event_at = greatest(b.started_at, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, %(kind)s::int2, %(token)s, (s.stage_attempts + 1)::int2, s.stage, 0::int2,
                      %(actor)s, greatest(b.started_at, s.last_event_at), %(facts)s)
    from begun b where s.id = b.job_id
  returning s.id, s.home_id, s.seq, s.last_event_at, s.head, s.stage, s.stage_attempts
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, facts, hash)
  select id, home_id, seq, last_event_at, %(kind)s, 0, stage, stage_attempts + 1, %(token)s, %(actor)s, %(facts)s, head from moved
)
select deadline_at from begun
