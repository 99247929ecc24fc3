-- Make a worker known and give it a lease; expects its id, name, role, lease; returns when the lease ends.
with c as materialized (select clock() as now),
known as (
  insert into actor (id, role, name, created_at) select %(id)s, %(role)s, %(name)s, now from c
  on conflict (id) do nothing
)
insert into worker (id, backend_pid, backend_start, started_at, expires_at)
select %(id)s, pg_backend_pid(), (select backend_start from pg_stat_activity where pid = pg_backend_pid()), now,
       now + make_interval(secs => %(lease_s)s) from c
returning expires_at
