-- Claim the best ready jobs of open queues; expects queue keys, a share per key, a limit, a token for each, the jobs that were
-- seen before, the worker; returns what the holder needs to know, and those whose unit is busy elsewhere, without a token.
with picked as materialized (
  select s.id, s.unit_lock
    from unnest(%(keys)s::int[]) as k (queue_key)
   cross join lateral (
     select id, unit_lock, priority, sort_at from standing
      where ready and queue_key = k.queue_key and id <> all(%(seen)s::uuid[])
      order by priority desc, sort_at, id limit %(share)s for update skip locked) s
   order by s.priority desc, s.sort_at, s.id limit %(most)s
),
-- Keys are taken in one order by everybody, and only tried: a unit that is busy elsewhere stays queued.
tried as materialized (
  select id, pg_try_advisory_xact_lock(unit_lock) as is_free
    from (select id, unit_lock from picked order by unit_lock offset 0) p
),
c as materialized (select clock() as now),
given as materialized (
  select id, (%(tokens)s::uuid[])[row_number() over ()] as token from tried where is_free
),
moved as (
  update standing s
     set state = 'processing', ready = false, claim_token = t.token, claimed_by = %(worker)s, claimed_at = c.now,
         not_before_at = null, reason = 0, seq = s.seq + 1, last_event_at = greatest(c.now, s.last_event_at),
         head = chain(s.head, s.id, s.seq + 1, %(kind)s::int2, t.token, (s.stage_attempts + 1)::int2, s.stage, 0::int2,
                      %(worker)s, greatest(c.now, s.last_event_at), null)
    from c, given t
   -- The array says that they are few: by the join alone the planner may read every standing there is.
   where s.id = any(array(select id from given)) and s.id = t.id and s.state = 'queued' and s.ready
  returning s.id, s.claim_token, s.home_id, s.stage, s.unit_lock, s.queue_key, s.stage_attempts, s.max_attempts,
            s.free_requeues, s.seq, s.last_event_at, s.head
),
recorded as (
  insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, token, actor, hash)
  select id, home_id, seq, last_event_at, %(kind)s, 0, stage, stage_attempts + 1, claim_token, %(worker)s, head from moved
),
counted as (
  insert into queue_delta (at, queue_key, state, n)
  select k.at, k.queue_key, d.state, d.sign * k.n
    from (select min(last_event_at) as at, queue_key, count(*) as n from moved group by queue_key) k
   cross join (values ('queued'::state, -1), ('processing', 1)) as d (state, sign)
)
select id, claim_token, home_id, stage, unit_lock, queue_key, stage_attempts, max_attempts, free_requeues from moved
union all
select id, null, null, null, null, null, null, null, null from tried where not is_free
