-- Doubtful messages whose target may settle them without a person; expects how long to let things settle and a limit; returns
-- messages, with whether their key may be repeated.
select d.id, d.claim_token as token, d.job_id, d.home_id, d.state, d.changelist_id, d.recipient, d.review_version, d.channel,
       d.guarantee, d.key, d.payload, d.payload_sha256, d.attempt_count, d.max_attempts, d.notification_id, d.notified_at,
       d.first_started_at, d.doubted_at, d.asked_at, d.hold_id is null and coalesce(d.repeat_until > clock(), true) as may_repeat
  from delivery d
 where d.state in ('unknown', 'reconciling') and d.guarantee <> 'neither'
   and coalesce(d.deadline_at, '-infinity') + make_interval(secs => %(settle_s)s) < (select clock())
   and (d.asked_at is null or d.asked_at + make_interval(secs => %(settle_s)s) < (select clock()))
 order by d.deadline_at limit %(most)s
