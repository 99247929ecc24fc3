-- How many jobs stand in each state, per pipeline; expects nothing; returns counts.
select p.name as pipeline, s.state::text as state, count(*) as n
  from standing s join pipeline p on p.id = s.pipeline group by p.name, s.state order by p.name, s.state
