-- The jobs that stand for these units, and whether they were asked for otherwise; expects new_job[]; returns ids of both.
select g.id as asked_id, j.id,
       (j.home_id, j.mode, j.account, j.group_key, j.routing, j.queue_keys, j.max_attempts, j.input_hash)
         is distinct from
       (g.home_id, g.mode, g.account, g.group_key, g.routing, coalesce(g.queue_keys, array[g.queue_key]), g.max_attempts,
        g.input_hash) as differs
  from unnest(%(jobs)s::new_job[]) as g join job j on j.pipeline = g.pipeline and j.unit = g.unit
