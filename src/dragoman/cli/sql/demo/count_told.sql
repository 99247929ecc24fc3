-- How a review and its messages stand; expects its job; returns one row.
select s.state::text as state, p.stages[s.stage + 1] as stage,
       (select count(*) from delivery d where d.job_id = s.id) as messages,
       (select count(*) from delivery d where d.job_id = s.id and d.notified_at is not null) as told
  from standing s join pipeline p on p.id = s.pipeline where s.id = %(id)s
