-- End a run with its counts; expects id, counts, jobs by provider and model; returns nothing.
update run set finished_at = clock(), counts = %(counts)s::jsonb, models = %(models)s::jsonb
 where id = %(id)s and finished_at is null
