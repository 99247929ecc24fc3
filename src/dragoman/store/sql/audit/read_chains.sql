-- Every event of some jobs, chain after chain; expects their ids; returns events.
select job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, facts, hash from event
 where job_id = any(%(ids)s::uuid[])
 order by job_id, seq
