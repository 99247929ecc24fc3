-- Every change outside of jobs, in order; expects nothing; returns changes.
select seq, at, actor, verb, subject, facts, hash from change order by seq
