-- Take a role's tick, so that nobody else runs it; expects the role; returns the role if it was due, or asked for.
-- Ticks stay on their grid: those that were missed count as one, and a run that was asked for moves none.
with c as materialized (select clock() as now)
update schedule s
   set ran_at = greatest(c.now, s.asked_at),
       next_at = case when s.next_at > c.now then s.next_at
                      else s.next_at + make_interval(
                        secs => s.every_s * (floor(extract(epoch from c.now - s.next_at) / s.every_s) + 1)) end
  from c
 where s.role = %(role)s
   and (not s.is_paused and s.next_at <= c.now or s.asked_at > coalesce(s.ran_at, '-infinity'))
returning s.role
