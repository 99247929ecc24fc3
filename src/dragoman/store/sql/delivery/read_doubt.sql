-- One message of which nobody knows whether it arrived; expects its id; returns metadata, or nothing when it is not in doubt.
select id, claim_token as token, job_id, home_id, state, review_version, channel, guarantee, key, attempt_count,
       coalesce(doubted_at, first_started_at, created_at) as doubted_at, asked_at, last_failure ->> 'code' as code,
       coalesce(deadline_at > clock(), false) as may_arrive,
       guarantee = 'neither' or hold_id is not null or asked_at is not null as needs_a_person
  from delivery where id = %(id)s and state in ('unknown', 'reconciling')
