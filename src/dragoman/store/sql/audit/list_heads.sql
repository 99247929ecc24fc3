-- The next heads of chains, in the order of their jobs; expects the job before them, since when, and how many; returns heads.
select job_id, home_id, seq, head, last_event_at from chain_head
 where job_id > %(after)s::uuid and (%(since)s::timestamptz is null or last_event_at >= %(since)s::timestamptz)
 order by job_id limit %(most)s
