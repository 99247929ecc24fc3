-- Jobs that wait, as their holder would know them; expects ticket[] (job, the token it would get); returns holdings.
select s.id, t.token, s.state::text as state, p.name as pipeline, s.stage, s.home_id, j.unit, s.unit_lock, s.queue_key,
       s.stage_attempts, j.max_attempts, s.free_requeues, j.account, j.mode::text as mode, j.group_key, j.routing
  from unnest(%(tickets)s::ticket[]) as t
  join standing s on s.id = t.id and s.state = 'queued'
  join job j on j.id = s.id
  join pipeline p on p.id = j.pipeline
