-- Take a submission whose create was never begun from its submitter; expects its token, a fresh one, the worker; returns its id.
update batch set token = %(fresh)s, claimed_by = %(worker)s
 where id = %(id)s and token = %(token)s and state = 'submitting' and started_at is null
returning id
