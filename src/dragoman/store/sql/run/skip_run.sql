-- Record a run that had nothing to do; expects id, role, worker, the sentence; returns nothing.
insert into run (id, role, worker_id, started_at, finished_at, skipped)
values (%(id)s, %(role)s, %(worker)s, clock(), clock(), %(skipped)s)
