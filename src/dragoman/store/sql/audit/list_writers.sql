-- Who is writing history now: a writer holds this lock from before it reads the clock until its commit, so that the times
-- of all others are past. Expects the clock to have been read by an earlier statement; returns transactions.
select distinct virtualtransaction as writer from pg_locks
 where locktype = 'relation' and mode = 'RowExclusiveLock' and granted
   and database = (select oid from pg_database where datname = current_database())
   and relation = to_regclass('event')
