-- Let a role run at another pace from now on; expects the role, every_s, the actor; returns the role if it is known.
update schedule
   set every_s = %(every_s)s, set_by = %(actor)s,
       next_at = least(next_at, clock() + make_interval(secs => %(every_s)s))
 where role = %(role)s
returning role
