-- What the stages of these reviews work on; expects job ids; returns inputs, with the redacted diff once it is there. A replay works
-- on what it or the jobs that it replays were given and have fetched, the newest first.
select a.job_id, i.changelist_id, i.review_version, i.recipients, d.diff, d.changed_files, d.not_reviewed
  from unnest(%(ids)s::uuid[]) as a (job_id)
 cross join lateral (
   select i.* from replay_line(a.job_id) l join review_input i on i.job_id = l.id order by l.depth limit 1) i
  left join lateral (
   select d.* from replay_line(a.job_id) l join review_diff d on d.job_id = l.id order by l.depth limit 1) d on true
