-- What the counters say of each state; returns a row per state.
select s.state::text as state, coalesce(sum(d.n), 0)::bigint as n
  from unnest(enum_range(null::state)) as s (state)
  left join (select state, n from queue_sum union all select state, n from queue_delta) as d using (state)
 group by s.state order by s.state
