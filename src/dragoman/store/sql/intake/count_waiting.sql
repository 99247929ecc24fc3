-- How many jobs of each home wait, counted no further than asked; expects home ids, how far; returns homes with numbers.
select h.id as home_id,
       (select count(*) from (select from standing where home_id = h.id and (ready or not_before_at is not null) limit %(most)s) s) as waiting
  from unnest(%(homes)s::uuid[]) as h (id)
