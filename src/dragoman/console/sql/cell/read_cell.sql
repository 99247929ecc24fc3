-- Which cell this is, its clock, its server, how many workers hold a lease, and since when and why it is held; returns one row.
select c.name, clock() as now, current_setting('server_version') as server,
       (select count(*) from worker w where w.stopped_at is null and w.expires_at > (select clock())) as workers,
       h.why as held_why, h.held_at
  from cell c left join hold h on h.released_at is null
