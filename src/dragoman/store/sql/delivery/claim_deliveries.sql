-- Claim messages that are due and held by nobody else alive; expects a worker, the channels it can send by; returns messages.
with picked as materialized (
  select id from delivery
   where state = 'queued' and channel = any(%(channels)s::text[]) and notified_at is null and notification_id is null
     and (doubted_at is null or repeat_until is null or repeat_until > (select clock()))
     and (next_attempt_at is null or next_attempt_at <= (select clock()))
     and not exists (select from worker w where w.id = claimed_by and w.id <> %(worker)s and w.stopped_at is null
                        and w.expires_at > (select clock()))
     and not exists (select from standing s where s.id = delivery.job_id and s.state = 'canceled')
   order by next_attempt_at nulls first, created_at limit %(most)s for update skip locked
)
update delivery d set claim_token = %(token)s, claimed_by = %(worker)s, claimed_at = clock()
  from picked where d.id = picked.id and d.state = 'queued'
returning d.id, d.claim_token as token, d.job_id, d.home_id, d.state, d.changelist_id, d.recipient, d.review_version, d.channel,
          d.guarantee, d.key, d.payload, d.payload_sha256, d.attempt_count, d.max_attempts, d.notification_id, d.notified_at,
          d.first_started_at, d.doubted_at, d.asked_at, d.hold_id is null and coalesce(d.repeat_until > clock(), true) as may_repeat
