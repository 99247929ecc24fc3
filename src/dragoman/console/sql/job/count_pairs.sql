-- Jobs of the last 24 hours by lane, pair and state; ids are time-ordered, so a range of ids is a range of time; returns rows.
with since as materialized (
  select (lpad(to_hex((extract(epoch from clock() - interval '24 hours') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid as id
)
select coalesce(j.lane::text, p.name) as lane, j.source_locale as source, j.target_locale as target, s.state::text as state,
       count(*) as n
  from job j
  join standing s using (id)
  join pipeline p on p.id = j.pipeline
 where j.id >= (select id from since)
 group by coalesce(j.lane::text, p.name), j.source_locale, j.target_locale, s.state
