-- Say what was judged of replies, while the token still holds; expects note[] and the actor; returns ids.
with given as materialized (select n.*, clock() as at from unnest(%(notes)s::note[]) as n),
moved as (
  update standing s
     set seq = s.seq + 1, last_event_at = greatest(g.at, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, g.kind, g.token, (s.stage_attempts + 1)::int2, s.stage, g.reason, %(actor)s,
                      greatest(g.at, s.last_event_at), g.facts)
    from given g
   where s.id = g.id and s.claim_token = g.token and s.state in ('processing', 'batch_submitted')
  returning s.id, s.home_id, s.seq, s.last_event_at, s.head, s.stage, s.stage_attempts, g.kind, g.reason, g.token, g.facts
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, facts, hash)
  select id, home_id, seq, last_event_at, kind, reason, stage, stage_attempts + 1, token, %(actor)s, facts, head from moved
)
select id from moved
