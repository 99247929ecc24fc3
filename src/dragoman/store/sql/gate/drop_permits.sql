-- Forget the permits of workers that are gone; they do not count any more; returns how many by its row count.
delete from permit p using worker w
 where w.id = p.worker_id and (w.stopped_at is not null or w.expires_at <= (select clock()))
