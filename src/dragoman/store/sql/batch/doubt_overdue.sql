-- Submissions whose answer can no longer come, from whoever made them, and their jobs; expects the event's kind; returns their ids.
with doubted as (
  update batch set state = 'submit_unknown'
   where state = 'submitting' and started_at is not null and deadline_at < (select clock())
  returning id, claimed_by, clock() as at
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
