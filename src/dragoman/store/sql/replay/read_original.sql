-- The job that a replay repeats; expects it; returns its intent with where it stands and how often it was replayed.
select j.pipeline, j.home_id, j.mode::text as mode, j.account, j.lane::text as lane, j.source_locale, j.target_locale, j.group_key, j.routing, j.queue_keys,
       j.max_attempts, j.changelist_id, j.review_version, j.input_hash, s.unit_lock,
       (select count(*) from job r where r.replay_of = j.id)::int as replays,
       (select l.id from replay_line(j.id) l order by l.depth desc limit 1) as root
  from job j join standing s using (id)
 where j.id = %(id)s
