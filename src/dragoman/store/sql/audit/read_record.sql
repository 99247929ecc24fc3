-- The record of one execution, from its events; expects the job; returns one row or none.
select * from audit where job_id = %(id)s
