-- How a review stands, in the words of its users; expects its job; returns one row.
select j.id, j.changelist_id, j.review_version, p.stages[s.stage + 1] as stage, s.state::text as state, s.stage_attempts,
       s.last_failure ->> 'code' as last_error, d.state as dead_letter, r.summary,
       (select count(*) from finding f where f.job_id = r.job_id) as findings
  from job j
  join standing s using (id)
  join pipeline p on p.id = j.pipeline
  left join lateral (
   select r.* from replay_line(j.id) l join review_result r on r.job_id = l.id order by l.depth limit 1) r on true
  left join dead_letter d on d.job_id = j.id
 where j.id = %(id)s and j.pipeline = 2
