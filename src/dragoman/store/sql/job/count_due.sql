-- How many jobs a claim could take now, counted by the claim's own predicate; expects queue keys; returns the number.
select count(*) as n from (
  select 1 from standing
   where queue_key = any(%(keys)s::int[]) and state = 'queued'
     and (ready or not_before_at <= (select clock()))
   limit %(most)s) as due
