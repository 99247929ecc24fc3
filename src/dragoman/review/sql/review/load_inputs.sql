-- What the stages of these reviews work on; expects job ids; returns inputs, with the redacted diff once it is there.
select i.job_id, i.changelist_id, i.review_version, i.recipients, d.diff, d.changed_files, d.not_reviewed
  from review_input i left join review_diff d using (job_id)
 where i.job_id = any(%(ids)s)
