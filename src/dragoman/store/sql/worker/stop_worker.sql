-- End a worker's lease; expects the worker; returns nothing.
update worker set stopped_at = clock(), expires_at = least(expires_at, clock()) where id = %(id)s and stopped_at is null
