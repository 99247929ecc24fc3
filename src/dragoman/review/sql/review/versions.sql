-- The versions of a changelist and the jobs in charge of them; expects the changelist; returns the highest first.
select r.version, r.job_id as id, r.home_id, s.state::text as state
  from review r join standing s on s.id = r.job_id
 where r.changelist_id = %(changelist_id)s
 order by r.version desc
