-- When the scheduled roles run; expects nothing; returns schedules.
select role, every_s, set_by is not null as is_set, is_paused, next_at, ran_at,
       coalesce(asked_at > coalesce(ran_at, '-infinity'), false) as is_asked
  from schedule order by role desc
