-- Keep what an operator needs of jobs that have just failed; expects burial[]; returns the dead letters' ids and states.
-- A replay that fails for the same reason for good is escalated at once.
insert into dead_letter (id, job_id, home_id, pipeline, stage, stage_name, error_class, code, reason, attempts, last_stack,
                         sanitized_context, first_failure_at, last_failure_at, state, created_at)
select b.dead_letter_id, b.id, s.home_id, s.pipeline, b.stage, b.stage_name, b.error_class, b.code, b.reason, b.attempts,
       string_to_array(b.last_stack, E'\n'), b.context, s.first_failure_at, s.last_failure_at,
       case when b.reason = 'not_retryable' and exists (
              select from job j join dead_letter l on l.job_id = j.replay_of
               where j.id = b.id and l.error_class = b.error_class and l.reason = b.reason)
            then 'escalated' else 'open' end,
       clock()
  from unnest(%(burials)s::burial[]) as b join standing s using (id)
returning id, job_id, state
