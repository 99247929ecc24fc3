-- Keep redacted diffs for the stages that follow; expects new_diff[]; returns nothing.
insert into review_diff (job_id, home_id, diff, changed_files, not_reviewed, redaction, created_at, expires_at)
select job_id, home_id, diff, changed_files, not_reviewed, redaction, at, at + interval '30 days'
  from unnest(%(diffs)s::new_diff[])
