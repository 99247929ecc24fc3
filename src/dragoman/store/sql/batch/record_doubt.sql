-- Nobody knows whether the batch was created; expects its token; returns its id, or nothing if it moved on.
update batch set state = 'submit_unknown'
 where id = %(id)s and token = %(token)s and state = 'submitting' and started_at is not null
returning id
