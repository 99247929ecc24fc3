-- How many jobs a claim could take now, counted by the claim's own predicate; expects queue keys; returns the number.
select count(*) as n from (
  (select 1 from unnest(%(keys)s::int[]) as k (queue_key)
     cross join lateral (select from standing where ready and queue_key = k.queue_key limit %(most)s) s)
  union all
  (select 1 from standing
    where not_before_at <= (select clock()) and not ready and state = 'queued' and queue_key = any(%(keys)s::int[])
    limit %(most)s)
  limit %(most)s) as due
