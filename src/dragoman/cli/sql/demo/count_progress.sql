-- How the complaints of this demonstration stand, by lane and languages; expects request ids; returns counts.
select j.lane::text as lane, j.source_locale, j.target_locale, s.state::text as state, count(*) as n
  from job j join standing s using (id) where j.request_id = any(%(ids)s) group by 1, 2, 3, 4
