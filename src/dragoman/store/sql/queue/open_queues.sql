-- The queues of one mode, for a worker that runs these pipelines; expects the mode; returns keys with their names.
select q.key, p.name as pipeline, q.stage, q.mode::text as mode, q.provider, q.account, q.model
  from queue q join pipeline p on p.id = q.pipeline
 where q.mode = %(mode)s::mode and p.name = any(%(pipelines)s::text[])
 order by q.key
