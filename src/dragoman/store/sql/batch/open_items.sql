-- The items of a batch that are not settled, with their jobs as their holder knows them; expects the batch; returns items.
select i.item_index, i.call, i.custom_id, s.id, i.token, s.state::text as state, p.name as pipeline, s.stage, s.home_id, j.unit,
       s.unit_lock, s.queue_key, s.stage_attempts, j.max_attempts, s.free_requeues, j.account, j.mode::text as mode,
       j.group_key, j.routing
  from batch_item i
  join standing s on s.id = i.job_id
  join job j on j.id = i.job_id
  join pipeline p on p.id = j.pipeline
 where i.batch_id = %(id)s and i.state = 'open'
 order by i.item_index
