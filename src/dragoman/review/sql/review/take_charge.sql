-- Put a job in charge of a version: a new one, or in place of one that has failed; expects the old job or null; returns the job.
insert into review as r (changelist_id, version, home_id, job_id, created_at)
values (%(changelist_id)s, %(version)s, %(home_id)s, %(job_id)s, clock())
on conflict (changelist_id, version) do update set job_id = excluded.job_id where r.job_id = %(instead_of)s
returning job_id
