-- Submissions that had not begun when the backup was made may have been created since, and each of their jobs says so; expects
-- the event's kind; returns their ids. What was sent is not known: an empty hash.
with doubted as (
  update batch b
     set state = 'submit_unknown', started_at = b.created_at, deadline_at = b.created_at,
         payload_sha256 = coalesce(b.payload_sha256, '\x'::bytea)
   where b.state = 'submitting' and b.started_at is null
     and not exists (select from worker w where w.id = b.claimed_by and w.stopped_at is null and w.expires_at > (select clock()))
  returning b.id, b.claimed_by, clock() as at
),
moved as (
  update standing s
     set seq = s.seq + 1, last_event_at = greatest(d.at, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, %(kind)s::int2, i.token, i.attempt, s.stage, 0::int2, d.claimed_by,
                      greatest(d.at, s.last_event_at), null)
    from doubted d join batch_item i on i.batch_id = d.id
   where i.state = 'open' and i.call = 0 and s.id = i.job_id and s.claim_token = i.token
  returning s.id, s.home_id, s.seq, s.last_event_at, s.head, s.stage, i.attempt, i.token, d.claimed_by
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, hash)
  select id, home_id, seq, last_event_at, %(kind)s, 0, stage, attempt, token, claimed_by, head from moved
)
select id from doubted
