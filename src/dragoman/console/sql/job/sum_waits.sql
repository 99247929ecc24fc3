-- What is queued, by why it waits; returns a row per pipeline, mode, reason and readiness.
select p.name as pipeline, q.mode::text as mode, r.name as reason,
       (s.ready or s.not_before_at <= c.now) as is_ready, count(*) as n, min(s.created_at) as oldest,
       min(s.not_before_at) as first_due, max(s.not_before_at) as last_due
  from standing s
 cross join (select clock() as now) c
  join queue q on q.key = s.queue_key
  join pipeline p on p.id = s.pipeline
  join word r on r.about = 'reason' and r.id = s.reason
 where s.state = 'queued' and (s.ready or s.not_before_at is not null)
 group by p.name, q.mode, r.name, is_ready order by n desc, oldest
