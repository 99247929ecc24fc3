-- Every event of a range of jobs, chain after chain; expects the job before it and the last one; returns events.
select job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, facts, hash from event
 where job_id > %(after)s::uuid and job_id <= %(upto)s::uuid
 order by job_id, seq
