-- End the lines of workers whose lease is over and that never stopped; expects nothing; returns those that were still open.
-- A process number is used again: only the backend that started when the worker's did is meant.
select w.id, pg_terminate_backend(w.backend_pid)
  from worker w join pg_stat_activity a on a.pid = w.backend_pid and a.backend_start = w.backend_start
 where w.expires_at <= (select clock()) and w.stopped_at is null
