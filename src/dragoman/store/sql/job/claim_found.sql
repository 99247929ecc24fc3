-- Claim jobs of which a provider has the calls already, due or not; expects ticket[] (job, new token), the worker, why; returns
-- their ids.
with c as materialized (select clock() as now),
moved as (
  update standing s
     set state = 'processing', ready = false, claim_token = t.token, claimed_by = %(worker)s, claimed_at = c.now,
         not_before_at = null, reason = %(reason)s, seq = s.seq + 1, last_event_at = greatest(c.now, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, %(kind)s::int2, t.token, (s.stage_attempts + 1)::int2, s.stage, %(reason)s::int2,
                      %(worker)s, greatest(c.now, s.last_event_at), null)
    from c, unnest(%(tickets)s::ticket[]) as t
   where s.id = t.id and s.state = 'queued'
  returning s.id, s.claim_token, s.home_id, s.stage, s.queue_key, s.stage_attempts, s.seq, s.last_event_at, s.head
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, hash)
  select id, home_id, seq, last_event_at, %(kind)s, %(reason)s, stage, stage_attempts + 1, claim_token, %(worker)s, head from moved
),
counted as (
  insert into queue_delta (at, queue_key, state, n)
  select k.at, k.queue_key, d.state, d.sign * k.n
    from (select min(last_event_at) as at, queue_key, count(*) as n from moved group by queue_key) k
   cross join (values ('queued'::state, -1), ('processing', 1)) as d (state, sign)
)
select id from moved
