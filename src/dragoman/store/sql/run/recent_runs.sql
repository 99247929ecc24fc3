-- The last runs of each role; expects a limit; returns runs.
select id, role, worker_id, started_at, finished_at, counts, skipped from run order by started_at desc limit %(most)s
