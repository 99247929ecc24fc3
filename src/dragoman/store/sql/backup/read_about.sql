-- What a backup says of itself, and the snapshot it is made of; expects a transaction of one snapshot; returns one row.
select pg_export_snapshot() as snapshot, c.name as cell, c.incarnation, clock() as taken_at,
       current_setting('server_version_num')::int / 10000 as postgres,
       (select array_agg(array[m.name, encode(m.sha256, 'hex')] order by m.name) from migration m) as migrations,
       (select count(*) from job) as jobs
  from cell c
