-- What is anchored of the events of a time; expects its beginning and its end, which is not in it; returns parts of events.
select job_id, seq, home_id, hash from event where at >= %(since)s and at < %(upto)s order by job_id, seq
