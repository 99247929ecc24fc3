-- One job as an operator may see it; expects its id; returns one row.
select * from job_record where job_id = %(id)s
