-- Mark a created batch with the provider's id, and its jobs with it; expects the token, sending[]; returns the jobs that moved.
with marked as (
  update batch
     set state = 'submitted', provider_batch_id = %(theirs)s, provider_status = %(status)s, submitted_at = clock()
   where id = %(id)s and token = %(token)s and state in ('submitting', 'submit_unknown') and started_at is not null
  returning id, submitted_at
),
moved as (
  update standing s
     set state = 'batch_submitted', claimed_by = null, claimed_at = null,
         provider_batch_id = coalesce(s.provider_batch_id, %(theirs)s), seq = s.seq + 1,
         last_event_at = greatest(m.submitted_at, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, %(kind)s::int2, g.token, (s.stage_attempts + 1)::int2, s.stage, %(reason)s::int2,
                      %(actor)s, greatest(m.submitted_at, s.last_event_at), g.facts)
    from marked m, unnest(%(jobs)s::sending[]) as g
   where s.id = g.id and s.claim_token = g.token and s.state = 'processing'
  returning s.id, s.home_id, s.seq, s.last_event_at, s.head, s.stage, s.stage_attempts, s.queue_key, g.token, g.facts
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, facts, hash)
  select id, home_id, seq, last_event_at, %(kind)s, %(reason)s, stage, stage_attempts + 1, token, %(actor)s, facts, head from moved
),
counted as (
  insert into queue_delta (at, queue_key, state, n)
  select k.at, k.queue_key, d.state, d.sign * k.n
    from (select min(last_event_at) as at, queue_key, count(*) as n from moved group by queue_key) k
   cross join (values ('processing'::state, -1), ('batch_submitted', 1)) as d (state, sign)
)
select marked.id as batch_id, (select count(*) from moved) as jobs from marked
