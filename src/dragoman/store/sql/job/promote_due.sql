-- Make ready what has become due, a bounded number; expects nothing but the clock; returns how many by its row count.
update standing set ready = true, not_before_at = null
 where id in (
   select id from standing
    where not_before_at <= (select clock()) and not ready and state = 'queued'
    order by not_before_at limit %(most)s for update skip locked)
