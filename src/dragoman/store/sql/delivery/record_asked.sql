-- What can be done without a person was tried and did not settle it; expects the message in doubt; returns its id.
update delivery set asked_at = clock() where id = %(id)s and claim_token = %(token)s and state in ('unknown', 'reconciling') returning id
