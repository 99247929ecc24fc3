-- Put a failure down to something, for a fresh remedy; expects the letter, its state, category, sign-off; returns its id.
update dead_letter
   set state = 'triaged', category = %(category)s, sign_off = %(sign_off)s, evidence = null, is_safe_twice = null
 where id = %(id)s and state = %(was)s
returning id
