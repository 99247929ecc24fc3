-- What is queued, by why it waits; a job that is due waits for its turn, whatever it waited for before; returns rows.
with waiting as (
  select s.queue_key, s.pipeline, s.created_at, s.not_before_at, s.ready or s.not_before_at <= c.now as is_ready,
         case when (s.ready or s.not_before_at <= c.now) and r.name not in ('overflow', 'runtime_limit') then 'none'
              else r.name end as reason
    from standing s
   cross join (select clock() as now) c
    join word r on r.about = 'reason' and r.id = s.reason
   where s.state = 'queued' and (s.ready or s.not_before_at is not null)
)
select p.name as pipeline, q.mode::text as mode, case when g.key is null then w.reason else 'gate_closed' end as reason,
       w.is_ready and g.key is null as is_ready, count(*) as n, min(w.created_at) as oldest,
       min(w.not_before_at) as first_due, max(w.not_before_at) as last_due
  from waiting w join queue q on q.key = w.queue_key join pipeline p on p.id = w.pipeline
  left join gate_now g on g.pause_reason is not null
    and g.provider = q.provider and g.account = q.account and g.model = q.model
 group by 1, 2, 3, 4 order by n desc, oldest
