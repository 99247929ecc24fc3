-- The deliveries of a job; expects the job's id; returns them without address and text.
select id, channel, guarantee, state, attempt_count, max_attempts, next_attempt_at, started_at, notified_at,
       last_failure ->> 'code' as code
  from delivery where job_id = %(id)s order by id
