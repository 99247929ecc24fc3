-- The dead letter of a job; expects the job's id; returns one row or none.
select id, state, error_class, code, reason, attempts, stage_name, last_stack, created_at
  from dead_letter where job_id = %(id)s
