-- The double rule: what the counters say and what a count of the standings says, in one snapshot; returns a row per state.
with told as (
  select state, sum(n)::bigint as n from (select state, n from queue_sum union all select state, n from queue_delta) as d
   group by state
),
counted as (select state, count(*) as n from standing group by state)
select s.state::text as state, coalesce(t.n, 0) as told, coalesce(c.n, 0) as counted
  from unnest(enum_range(null::state)) as s (state) left join told t using (state) left join counted c using (state)
 order by s.state
