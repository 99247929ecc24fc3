-- The chained events of a job, each verified against the one before it; expects the job's id; returns them in order.
select e.seq, e.at, k.name as kind, r.name as reason, e.stage, e.attempt, e.token, a.role as actor_role, a.name as actor,
       convert_from(e.facts, 'UTF8')::jsonb as facts, encode(e.hash, 'hex') as hash,
       chain(lag(e.hash, 1, '\x'::bytea) over w, e.job_id, e.seq, e.kind, e.token, e.attempt, e.stage, e.reason, e.actor, e.at,
             e.facts) = e.hash and e.seq = row_number() over w as is_linked
  from event e
  left join word k on k.about = 'kind' and k.id = e.kind
  left join word r on r.about = 'reason' and r.id = e.reason
  left join actor a on a.id = e.actor
 where e.job_id = %(id)s
window w as (order by e.seq)
 order by e.seq
