-- A letter that needs somebody else's decision; expects it and its state; returns its id.
update dead_letter set state = 'escalated'
 where id = %(id)s and state = %(was)s
returning id
