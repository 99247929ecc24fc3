-- Begin a run; expects id, role, worker, limits; returns nothing.
insert into run (id, role, worker_id, started_at, max_jobs_per_run, max_runtime_s)
values (%(id)s, %(role)s, %(worker)s, clock(), %(max_jobs)s, %(max_runtime_s)s)
