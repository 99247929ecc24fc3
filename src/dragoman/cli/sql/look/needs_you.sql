-- What waits for a person; expects nothing; returns alerts and dead letters, the newest first.
select severity, kind, subject, last_at as at from alert where closed_at is null
union all
select 'act', 'dead_letter ' || error_class || '/' || code, job_id::text, created_at from dead_letter where state <> 'resolved'
order by 4 desc limit 20
