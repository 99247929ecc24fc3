-- Let one writer at a time extend the chain of changes; expects the key of the lock; returns nothing that matters.
select pg_advisory_xact_lock(%(lock)s)
