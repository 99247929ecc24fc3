-- Messages of jobs from before a restore that are unsent, and may have been sent since the backup; expects a limit; returns
-- messages.
with h as (select id, held_at from hold where why <> 'asked' order by held_at desc limit 1)
select d.id, d.claim_token as token, d.job_id, d.home_id, d.state, d.changelist_id, d.recipient, d.review_version, d.channel,
       d.guarantee, d.key, d.payload, d.payload_sha256, d.attempt_count, d.max_attempts, d.notification_id, d.notified_at,
       d.first_started_at, d.doubted_at, d.asked_at, d.hold_id is null and coalesce(d.repeat_until > clock(), true) as may_repeat
  from h
  join delivery d on d.state in ('queued', 'sending', 'unknown', 'reconciling') and d.hold_id is distinct from h.id
   and d.notified_at is null
  join job j on j.id = d.job_id and j.created_at < h.held_at
  join standing s on s.id = d.job_id and s.state <> 'canceled'
 order by d.created_at limit %(most)s
