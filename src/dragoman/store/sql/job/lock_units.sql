-- Take the units' locks until the end of the transaction; expects sorted keys; returns how many.
select count(*) from unnest(%(locks)s::bigint[]) as k where pg_advisory_xact_lock(k) is not null
