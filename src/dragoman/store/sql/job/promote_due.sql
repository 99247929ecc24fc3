-- Make ready what has become due, a bounded number; expects whether their time counts; returns how many by its row count.
-- An array, not a join: with a join the planner may read every standing there is to find these few.
update standing set ready = true, not_before_at = null
 where id = any(array(
   select id from standing
    where not_before_at <= (select case when %(is_respected)s then clock() else 'infinity' end)
      and not ready and state = 'queued'
    order by not_before_at limit %(most)s for update skip locked))
