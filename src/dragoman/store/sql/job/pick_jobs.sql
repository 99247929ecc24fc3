-- Pick ready jobs of open queues and lock their rows and units; expects queue keys, a share per key, a limit, and the jobs
-- that were seen before; returns ids, and whether the unit is free.
with picked as materialized (
  select s.id, s.unit_lock
    from unnest(%(keys)s::int[]) as k (queue_key)
   cross join lateral (
     select id, unit_lock, priority, sort_at from standing
      where ready and queue_key = k.queue_key and id <> all(%(seen)s::uuid[])
      order by priority desc, sort_at, id limit %(share)s for update skip locked) s
   order by s.priority desc, s.sort_at, s.id limit %(most)s
)
-- Keys are taken in one order by everybody, and only tried: a unit that is busy elsewhere stays queued.
select id, pg_try_advisory_xact_lock(unit_lock) as is_free
  from (select id, unit_lock from picked order by unit_lock offset 0) p
