-- Messages that nobody may send before somebody has looked: a mark without what a send leaves behind, half a mark, a repeat
-- whose key has ended; expects a limit; returns messages.
select d.id, d.claim_token as token, d.job_id, d.home_id, d.state, d.changelist_id, d.recipient, d.review_version, d.channel,
       d.guarantee, d.key, d.payload, d.payload_sha256, d.attempt_count, d.max_attempts, d.notification_id, d.notified_at,
       d.first_started_at, d.doubted_at, d.asked_at, d.hold_id is null and coalesce(d.repeat_until > clock(), true) as may_repeat
  from delivery d
 where d.id = any(array(
   select id from delivery
    where notified_at is not null and state not in ('sending', 'reconciling')
      and (state <> 'sent' or notification_id is null or evidence is null or first_started_at is null)
   union all
   select id from delivery where notified_at is null and state in ('queued', 'failed') and notification_id is not null
   union all
   select id from delivery where state = 'queued' and doubted_at is not null and repeat_until <= (select clock())))
 order by d.created_at limit %(most)s
