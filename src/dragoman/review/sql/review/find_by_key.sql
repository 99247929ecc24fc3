-- The review that a key has made before; expects home and key; returns its job.
select j.id, j.changelist_id, j.review_version, j.input_hash, s.state::text as state
  from job j join standing s using (id)
 where j.pipeline = 2 and j.unit = %(unit)s
