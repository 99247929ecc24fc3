-- Let one operator at a time move a letter; expects its id or its job's; returns its id.
select id from dead_letter where id = %(id)s or job_id = %(id)s for update
