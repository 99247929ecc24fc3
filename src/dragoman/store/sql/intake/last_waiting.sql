-- Where the last waiting job of each home stands in the order, and the time; expects home ids; returns homes with times.
select h.id as home_id, clock() as now,
       (select sort_at from standing where home_id = h.id and (ready or not_before_at is not null) order by sort_at desc limit 1) as last_at
  from unnest(%(homes)s::uuid[]) as h (id)
