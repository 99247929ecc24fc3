-- Which cell this is, its clock, its server and how many workers hold a lease; returns one row.
select c.name, clock() as now, current_setting('server_version') as server,
       (select count(*) from worker w where w.stopped_at is null and w.expires_at > (select clock())) as workers
  from cell c
