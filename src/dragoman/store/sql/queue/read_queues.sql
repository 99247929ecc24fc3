-- The names behind queue keys; expects keys; returns queues.
select q.key, p.name as pipeline, q.stage, q.mode::text as mode, q.provider, q.account, q.model
  from queue q join pipeline p on p.id = q.pipeline where q.key = any(%(keys)s::int[])
