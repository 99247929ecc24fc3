-- Jobs of the last 24 hours that became final last; expects a limit; returns them as the list shows them.
with since as materialized (
  select (lpad(to_hex((extract(epoch from clock() - interval '24 hours') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid as id
),
picked as materialized (
  select s.id from standing s
   where s.id >= (select id from since) and s.state in ('completed', 'failed', 'canceled')
   order by s.last_event_at desc limit %(most)s
)
select r.job_id, r.pipeline, r.status::text as state, r.stage, r.execution_mode::text as mode, w.name as reason,
       r.ready, r.not_before_at, r.lane::text as lane, r.source_locale as source, r.target_locale as target,
       r.routing_decision ->> 'provider' as provider, r.routing_decision ->> 'model' as model, r.attempt_count,
       r.max_attempts, r.last_error, r.created_at, r.updated_at, b.id as batch_id, b.state as batch_state
  from picked
  join job_record r on r.job_id = picked.id
  left join word w on w.about = 'reason' and w.id = r.standing_reason
  left join lateral (select b.id, b.state from batch_item i join batch b on b.id = i.batch_id where i.job_id = r.job_id
                      order by b.created_at desc limit 1) b on true
 order by r.updated_at desc
