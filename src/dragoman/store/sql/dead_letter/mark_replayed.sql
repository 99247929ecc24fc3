-- A letter whose replay was just enqueued, which somebody said may happen twice; expects letter and state; returns its id.
update dead_letter set state = 'replayed', is_safe_twice = true
 where id = %(id)s and state = %(was)s
returning id
