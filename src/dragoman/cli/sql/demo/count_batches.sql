-- How many provider batches carried these complaints; expects request ids; returns the number.
select count(distinct i.batch_id) as n from batch_item i join job j on j.id = i.job_id where j.request_id = any(%(ids)s)
