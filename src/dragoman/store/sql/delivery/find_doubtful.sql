-- Doubtful messages that can be settled without a person: the target can be asked, or honours keys and no restore has let its
-- window pass; expects how long to let
-- things settle and a limit; returns what settles them.
select d.id, d.claim_token as token, d.job_id, d.home_id, d.state, d.changelist_id, d.recipient, d.review_version, d.channel,
       d.guarantee, d.key, d.payload, d.payload_sha256, d.attempt_count, d.max_attempts, d.notification_id, d.notified_at,
       d.first_started_at, d.doubted_at
  from delivery d
 where d.state = 'unknown' and (d.guarantee = 'lookup' or d.guarantee = 'key' and d.hold_id is null)
   and d.deadline_at + make_interval(secs => %(settle_s)s) < (select clock())
   and (d.asked_at is null or d.asked_at + make_interval(secs => %(settle_s)s) < (select clock()))
 order by d.deadline_at limit %(most)s
