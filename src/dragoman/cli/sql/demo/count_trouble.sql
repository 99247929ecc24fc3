-- What went wrong on the way of these complaints, and how it ended; expects request ids; returns one row.
select (select count(distinct h.facts ->> 'batch_id') from history h join job j on j.id = h.job_id
         where j.request_id = any(%(ids)s) and h.kind = 'submitted' and h.reason = 'adopted') as adopted,
       (select count(*) from history h join job j on j.id = h.job_id
         where j.request_id = any(%(ids)s) and h.kind = 'retried') as retried,
       (select count(*) from dead_letter d join job j on j.id = d.job_id where j.request_id = any(%(ids)s)) as failed,
       (select string_agg(distinct d.code, ', ') from dead_letter d join job j on j.id = d.job_id
         where j.request_id = any(%(ids)s)) as codes
