-- The provider's list did not show it; expects the batch in doubt; returns how often that was so.
update batch set asked_at = clock(), absences = absences + 1
 where id = %(id)s and token = %(token)s and state = 'submit_unknown'
returning absences
