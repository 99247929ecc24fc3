-- Make a role's schedule known, at the profile's pace unless an operator set another; expects role, every_s; returns nothing.
insert into schedule as s (role, every_s, next_at) values (%(role)s, %(every_s)s, clock())
on conflict (role) do update
   set every_s = excluded.every_s, next_at = least(s.next_at, clock() + make_interval(secs => excluded.every_s))
 where s.set_by is null and s.every_s <> excluded.every_s
