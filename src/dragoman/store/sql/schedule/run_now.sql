-- Ask for a run now, even of a paused role; expects the role, the actor; returns the role if it is known.
update schedule
   set asked_at = greatest(clock(), ran_at + interval '1 microsecond'), asked_by = %(actor)s
 where role = %(role)s
returning role
