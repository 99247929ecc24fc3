-- The job of an id that may be a job's or a request's; expects the id; returns the job's id or nothing.
select id from job where id = %(id)s
union
select id from job where request_id = %(id)s
