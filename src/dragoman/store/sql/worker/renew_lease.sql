-- Renew a lease that has not ended; expects the worker and the lease; returns the new end, or nothing: then it is gone.
update worker set expires_at = clock() + make_interval(secs => %(lease_s)s)
 where id = %(id)s and stopped_at is null and expires_at > clock()
returning expires_at
