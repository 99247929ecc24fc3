-- Dead letters, the oldest first; expects whether closed ones count, and how many; returns them with their last replays.
select d.id, d.job_id, d.home_id, p.name as pipeline, d.stage, d.stage_name, d.error_class, d.code, d.reason, d.attempts,
       d.state, d.category, d.evidence, d.sign_off, d.notes, d.sanitized_context, d.created_at, d.closed_at,
       (select r.id from job r where r.replay_of = d.job_id order by r.created_at desc limit 1) as replay_id
  from dead_letter d join pipeline p on p.id = d.pipeline
 where d.state <> 'resolved' or %(closed_too)s
 order by d.created_at, d.id
 limit %(most)s
