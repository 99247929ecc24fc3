-- How many worker processes hold a lease; returns one row.
select count(*)::int as writers from worker where stopped_at is null and expires_at > (select clock())
