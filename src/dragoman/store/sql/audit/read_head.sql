-- The head of one job's chain; expects the job; returns one head or none.
select job_id, home_id, seq, head, last_event_at from chain_head where job_id = %(id)s
