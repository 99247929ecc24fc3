-- Claims whose holder is gone: its lease has ended and the claim is older than its pipeline allows. An item of an open
-- batch is never stale by age: only that batch's reconciliation lets go of it. Expects seconds per pipeline; returns holdings.
select s.id, s.claim_token as token, s.state::text as state, p.name as pipeline, s.stage, s.home_id, j.unit, s.unit_lock,
       s.queue_key, s.stage_attempts, j.max_attempts, s.free_requeues, j.account, j.mode::text as mode, j.group_key, j.routing
  from standing s
  join job j using (id)
  join pipeline p on p.id = j.pipeline
  left join worker w on w.id = s.claimed_by
 where s.state = 'processing'
   and s.claimed_at < (select clock()) - make_interval(secs => (%(timeouts)s::jsonb ->> p.name)::float8)
   and (w.id is null or w.stopped_at is not null or w.expires_at <= (select clock()))
   and not exists (select from batch_item i where i.job_id = s.id and i.state = 'open')
 order by s.claimed_at, s.id
 limit %(most)s
