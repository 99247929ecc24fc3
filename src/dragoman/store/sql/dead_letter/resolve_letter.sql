-- Close a letter; expects it, its state and notes; returns its id.
update dead_letter set state = 'resolved', notes = %(notes)s, closed_at = clock()
 where id = %(id)s and state = %(was)s
returning id
