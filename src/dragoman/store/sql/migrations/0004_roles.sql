-- Who may do what; expects the roles (made by the bootstrap) and all tables; returns nothing.

grant usage on schema dragoman to dragoman_orchestrator, dragoman_worker, dragoman_operator, dragoman_frontend,
  dragoman_auditor, dragoman_eraser;

-- The orchestrator creates requests, snapshots and jobs. It claims nothing and finishes nothing.
grant select, insert on job, standing, event, queue, queue_delta, actor, rewrite_request, recipient_snapshot,
  recipient_preference_snapshot, review_input, alert to dragoman_orchestrator;
grant select on member, preference, route, pipeline, word, cell, rewrite_output, delivery, review_result, finding, queue_sum,
  dead_letter to dragoman_orchestrator;
grant insert, update, delete on member, preference to dragoman_orchestrator;
grant select, insert, update (job_id) on review to dragoman_orchestrator;
grant update (times, last_at) on alert to dragoman_orchestrator;
grant update (classifier_version, classifier_result, defaulted, detected_language, language_confidence, topics, intent,
  rewrite_strength, source_locale, target_locale, lane, context_pack, policy_version, routing_decision, rewrite_request,
  routed_at, failed_at, failure_code) on rewrite_request to dragoman_orchestrator;
grant select, insert, update on reveal to dragoman_orchestrator;

-- The worker claims, submits, collects, finishes. It creates no request and reads no preference.
grant select on job, queue, pipeline, word, cell, rewrite_request, recipient_snapshot, review_input, route, actor,
  dead_letter, event to dragoman_worker;
grant select, update on standing to dragoman_worker;
grant insert on event, queue_delta, actor, dead_letter, stage_result, rewrite_output, review_diff, review_result, finding
  to dragoman_worker;
grant select on rewrite_output, stage_result, review_diff, review_result, finding to dragoman_worker;
-- Folding locks the rows it takes, and a row lock asks for UPDATE on some column.
grant select, delete, update (at) on queue_delta to dragoman_worker;
-- The sweeper says of a request that never got its job that it has failed, and nothing else.
grant update (failed_at, failure_code) on rewrite_request to dragoman_worker;
grant select, insert, update on queue, queue_sum, worker, alert, run, batch, batch_item to dragoman_worker;
grant select, insert, update on delivery to dragoman_worker;
grant update (failed_at, failure_code) on rewrite_request to dragoman_worker;
grant select on review, queue_sum to dragoman_worker;

-- Room for the months to come is made with the owner's rights, and only the sweeper may ask for it.
revoke execute on function ensure_partitions from public;
grant execute on function ensure_partitions to dragoman_worker;

-- The operator sees everything but text, and may cancel, triage and configure.
grant select on job, event, queue, queue_sum, queue_delta, batch, batch_item, dead_letter, alert, run, worker, actor, cell,
  word, pipeline, stage_result, route, review to dragoman_operator;
grant select (id, home_id, pipeline, not_before_at, claimed_at, claimed_by, claim_token, sort_at, created_at, last_event_at,
  unit_lock, queue_key, seq, state, stage, priority, attempt_count, stage_attempts, free_requeues, max_attempts, reason, ready,
  provider_batch_id, first_failure_at, last_failure_at, last_failure, head) on standing to dragoman_operator;
grant update (state, ready, not_before_at, claim_token, claimed_by, claimed_at, reason, seq, last_event_at, head)
  on standing to dragoman_operator;
grant insert on event, queue_delta, actor to dragoman_operator;
grant update (state, next_attempt_at) on delivery to dragoman_operator;
grant select (id, home_id, sender_user_id, recipient_user_id, surface, text_sha256, created_at, classifier_version, defaulted,
  detected_language, language_confidence, topics, intent, rewrite_strength, source_locale, target_locale, lane, policy_version,
  routing_decision, routed_at, failed_at, failure_code) on rewrite_request to dragoman_operator;
grant select (request_id, recipient_user_id, home_id, job_id, output_language, target_locale, provider, model, prompt_version,
  policy_version, lexicon_version, eval_result, completed_at) on rewrite_output to dragoman_operator;
grant select (id, changelist_id, review_version, home_id, job_id, channel, guarantee, state, attempt_count, max_attempts,
  next_attempt_at, claimed_by, claimed_at, started_at, first_started_at, deadline_at, asked_at, notification_id, notified_at,
  last_failure, payload_sha256, created_at, key) on delivery to dragoman_operator;
grant select on route to dragoman_operator;
grant insert, update on route, alert to dragoman_operator;

-- The auditor reads the history and the heads of its chains.
grant select on event, word, actor, cell, pipeline to dragoman_auditor;

create view chain_head as select id as job_id, home_id, seq, head, last_event_at from standing;
grant select on chain_head to dragoman_auditor, dragoman_operator;

-- S2's record of a job: the intent, the standing and the request's metadata as one row.
create view job_record as
select j.id as job_id, j.request_id as rewrite_request_id, p.name as pipeline, j.unit, j.home_id,
       case when j.pipeline = 1 then 'complaint_rewrite' else p.name end as task,
       r.surface, r.rewrite_strength,
       case when j.source_locale is not null then jsonb_build_object('from', j.source_locale, 'to', j.target_locale) end
         as language_pair,
       r.sender_user_id, j.recipient_id as recipient_user_id, rs.id as recipient_snapshot_id,
       ps.id as recipient_preference_snapshot_id, j.source_locale, j.target_locale, j.lane, j.mode as execution_mode,
       s.state as status, p.stages[s.stage + 1] as stage, j.created_at, s.last_event_at as updated_at, s.not_before_at,
       s.claimed_at, s.claimed_by, s.attempt_count, s.stage_attempts, j.max_attempts, s.free_requeues,
       s.last_failure ->> 'code' as last_error, s.last_failure_at as last_error_at, s.provider_batch_id,
       j.changelist_id, j.review_version, j.replay_of, j.group_key as batch_group_key, j.account, j.routing as routing_decision,
       s.reason as standing_reason, s.ready
  from job j
  join standing s using (id)
  join pipeline p on p.id = j.pipeline
  left join rewrite_request r on r.id = j.request_id
  left join recipient_snapshot rs on rs.request_id = j.request_id
  left join recipient_preference_snapshot ps on ps.request_id = j.request_id;

-- What a product's own users may see: four words, and nothing of how.
create view rewrite_status as
select r.id as rewrite_request_id, r.home_id, r.sender_user_id, r.recipient_user_id, j.id as job_id,
       case when r.failed_at is not null or s.state in ('failed', 'canceled') then 'failed'
            when s.state = 'completed' and v.sender_reveal_at <= clock() then 'revealed'
            when s.state = 'completed' then 'delivered'
            else 'queued' end as status,
       r.created_at, o.completed_at as rewrite_completed_at
  from rewrite_request r
  left join job j on j.request_id = r.id
  left join standing s on s.id = j.id
  left join rewrite_output o on o.request_id = r.id
  left join reveal v on v.request_id = r.id;
grant select on rewrite_status to dragoman_frontend, dragoman_orchestrator, dragoman_operator;
grant select on job_record to dragoman_orchestrator, dragoman_operator;

-- The history with words instead of numbers.
create view history as
select e.job_id, e.home_id, e.seq, e.at, k.name as kind, r.name as reason, e.stage, e.attempt, e.token, a.role as actor_role,
       a.name as actor, convert_from(e.facts, 'UTF8')::jsonb as facts, e.hash
  from event e
  left join word k on k.about = 'kind' and k.id = e.kind
  left join word r on r.about = 'reason' and r.id = e.reason
  left join actor a on a.id = e.actor;
grant select on history to dragoman_operator, dragoman_auditor, dragoman_orchestrator;

-- An attempt is what shares a token: no second ledger to keep in step.
create view attempt as
select job_id, home_id, token, min(stage) as stage, min(attempt) as attempt, min(at) as claimed_at, max(at) as last_at,
       array_agg(kind order by seq) as kinds
  from event where token is not null group by job_id, home_id, token;
grant select on attempt to dragoman_operator, dragoman_auditor;
