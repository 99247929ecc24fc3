-- What the checks said of a stored output, without a word of it; expects the job's id; returns one row or none.
select output_language, eval_result, lexicon_version, completed_at from rewrite_output where job_id = %(id)s
