-- Which data these are and how far they are written; expects nothing; returns one row.
select c.incarnation, (select system_identifier from pg_control_system()) as system,
       (select oid from pg_database where datname = current_database())::bigint as database,
       (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint as written, c.marked_at is not null as is_marked
  from cell c
