-- The provider could not be asked; expects the batch in doubt; returns its id.
update batch set asked_at = clock() where id = %(id)s and token = %(token)s and state = 'submit_unknown' returning id
