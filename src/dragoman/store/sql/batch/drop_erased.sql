-- Lines have come for jobs that were erased: each is dropped, and said once on its tombstone; expects the batch, the ids of its
-- lines, the actor; returns the jobs.
with dropped as (
  update batch_item i set code = 'dropped'
   where i.batch_id = %(id)s and i.custom_id = any(%(custom_ids)s::text[]) and i.state = 'ignored' and i.code = 'erased'
  returning i.job_id, i.token, i.call, clock() as at
),
moved as (
  update tombstone t
     set seq = t.seq + 1, last_event_at = greatest(d.at, t.last_event_at),
         head = chain(t.head, t.job_id, t.seq + 1, %(kind)s::int2, d.token, t.attempt, t.stage, %(reason)s::int2, %(actor)s,
                      greatest(d.at, t.last_event_at), null)
    from (select distinct on (job_id) * from dropped order by job_id, call) d
   where t.job_id = d.job_id
  returning t.job_id, t.home_id, t.seq, t.last_event_at, t.head, t.stage, t.attempt, d.token
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, hash)
  select job_id, home_id, seq, last_event_at, %(kind)s, %(reason)s, stage, attempt, token, %(actor)s, head from moved
)
select job_id from moved
