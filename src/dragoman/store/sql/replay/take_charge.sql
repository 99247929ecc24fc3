-- Put a replay in charge of the version of the job that failed; expects both; returns the replay, or nothing if another job is in
-- charge or a higher version exists.
update review r set job_id = %(replay)s
  from job o
 where o.id = %(original)s and (r.changelist_id, r.version) = (o.changelist_id, o.review_version)
   and (r.job_id = o.id
     or r.job_id in (select c.id from job c join standing s using (id) where c.replay_of = o.id and s.state = 'canceled'))
   and not exists (select from review h where h.changelist_id = r.changelist_id and h.version > r.version)
returning r.job_id
