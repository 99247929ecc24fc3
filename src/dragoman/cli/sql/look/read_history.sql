-- What happened to a job, in order; expects its id; returns its events.
select seq, at, kind, reason, stage, attempt, actor_role, facts, hash from history where job_id = %(id)s order by seq
