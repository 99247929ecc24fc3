-- One page of jobs, the newest first; expects the id before which it starts, filters that may be null, a limit; returns jobs.
with picked as materialized (
  select j.id from job j join standing s using (id)
   where (%(before)s::uuid is null or j.id < %(before)s::uuid)
     and (%(state)s::text is null or s.state = %(state)s::state)
     and (%(lane)s::text is null or coalesce(j.lane::text, (select p.name from pipeline p where p.id = j.pipeline)) = %(lane)s)
     and (%(source)s::text is null or j.source_locale = %(source)s)
     and (%(target)s::text is null or j.target_locale = %(target)s)
     and (%(ending)s::text is null or right(replace(j.id::text, '-', ''), length(%(ending)s)) = %(ending)s)
   order by j.id desc limit %(most)s
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
 order by r.job_id desc
