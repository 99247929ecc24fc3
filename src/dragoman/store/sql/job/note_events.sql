-- Append events that move nothing but the chain's head (a late result, a refused cancel), on a standing or, of an erased job, on
-- its tombstone; expects note[], the actor; returns ids.
with given as materialized (select n.*, clock() as at from unnest(%(notes)s::note[]) as n),
moved as (
  update standing s
     set seq = s.seq + 1, last_event_at = greatest(g.at, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, g.kind, g.token, (s.stage_attempts + 1)::int2, s.stage, g.reason, %(actor)s,
                      greatest(g.at, s.last_event_at), g.facts)
    from given g
   where s.id = g.id
  returning s.id, s.home_id, s.seq, s.last_event_at, s.head, s.stage, (s.stage_attempts + 1)::int2 as attempt, g.kind,
            g.reason, g.token, g.facts
),
remembered as (
  update tombstone t
     set seq = t.seq + 1, last_event_at = greatest(g.at, t.last_event_at),
         head = chain(t.head, t.job_id, t.seq + 1, g.kind, g.token, t.attempt, t.stage, g.reason, %(actor)s,
                      greatest(g.at, t.last_event_at), g.facts)
    from given g
   where t.job_id = g.id
  returning t.job_id, t.home_id, t.seq, t.last_event_at, t.head, t.stage, t.attempt, g.kind, g.reason, g.token, g.facts
),
noted as (select * from moved union all select * from remembered),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, facts, hash)
  select id, home_id, seq, last_event_at, kind, reason, stage, attempt, token, %(actor)s, facts, head from noted
)
select id from noted
