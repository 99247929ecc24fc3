-- Record what was done about the cause; expects the letter, its state, the evidence; returns its id.
update dead_letter set state = 'remediated', evidence = %(evidence)s::jsonb
 where id = %(id)s and state = %(was)s
returning id
