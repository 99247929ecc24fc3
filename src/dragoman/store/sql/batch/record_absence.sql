-- The provider's list did not show it; expects the batch in doubt as it was read, so that two who ask at once count once;
-- returns how often that was so.
update batch set asked_at = clock(), absences = absences + 1
 where id = %(id)s and token = %(token)s and state = 'submit_unknown' and absences = %(absences)s
returning absences
