-- The head of a job's chain; expects its id; returns it.
select seq, head from chain_head where job_id = %(id)s
