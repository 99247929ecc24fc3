-- The same delivery rows, for those who were not told; expects the replay and its sends; returns nothing.
update delivery d
   set job_id = j.id,
       state = case when d.state in ('failed', 'canceled') then 'queued' else d.state end,
       next_attempt_at = case when d.state in ('failed', 'canceled') then null else d.next_attempt_at end,
       max_attempts = case when d.state in ('failed', 'canceled') then d.attempt_count + %(sends)s else d.max_attempts end
  from job j
 where j.id = %(replay)s and (d.changelist_id, d.review_version) = (j.changelist_id, j.review_version) and d.notified_at is null
