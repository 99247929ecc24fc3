-- The last runs of scheduled roles: those that did something, and of the skips only the last; expects roles, how many; returns runs.
with last as (
  select r.* from unnest(%(roles)s::text[]) as wanted (role)
   cross join lateral (select * from run where run.role = wanted.role order by started_at desc limit 500) r
),
ranked as (
  select last.*, row_number() over (partition by role, skipped is null order by started_at desc) as place from last
)
select id, role, started_at, finished_at, max_jobs_per_run, counts, skipped
  from ranked where place <= case when skipped is null then %(most)s else 1 end
 order by started_at desc
