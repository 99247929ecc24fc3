-- The target was asked and could not tell; expects the message in doubt; returns its id.
update delivery set asked_at = clock() where id = %(id)s and claim_token = %(token)s and state = 'unknown' returning id
