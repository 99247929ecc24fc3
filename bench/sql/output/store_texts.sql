-- Store texts, each in its own row; expects new_text[]; returns nothing.
insert into text_output (job_id, home_id, body, completed_at)
select job_id, home_id, body, completed_at from unnest(%(texts)s::new_text[])
