-- A dead letter; expects its id or its job's; returns it with its last replay.
select d.id, d.job_id, d.home_id, p.name as pipeline, d.stage, d.stage_name, d.error_class, d.code, d.reason, d.attempts,
       d.state, d.category, d.evidence, d.sign_off, d.notes, d.sanitized_context, d.created_at, d.closed_at,
       (select r.id from job r where r.replay_of = d.job_id order by r.created_at desc limit 1) as replay_id
  from dead_letter d join pipeline p on p.id = d.pipeline
 where d.id = %(id)s or d.job_id = %(id)s
