-- One job as its page explains it; expects its id; returns one row or none.
select r.job_id, r.pipeline, r.status::text as state, r.stage, r.execution_mode::text as mode, w.name as reason,
       r.ready, r.not_before_at, r.lane::text as lane, r.source_locale as source, r.target_locale as target,
       r.routing_decision ->> 'provider' as provider, r.routing_decision ->> 'model' as model, r.attempt_count,
       r.max_attempts, r.last_error, r.created_at, r.updated_at, b.id as batch_id, b.state as batch_state,
       r.rewrite_request_id, r.recipient_user_id, r.sender_user_id, r.home_id, r.recipient_snapshot_id, r.surface,
       r.rewrite_strength, r.routing_decision ->> 'adapter_kind' as adapter_kind, r.account,
       r.routing_decision ->> 'prompt_version' as prompt_version, r.batch_group_key as group_key, r.changelist_id is not null
       as is_review, r.review_version, r.replay_of, r.free_requeues, r.provider_batch_id, q.policy_version, q.classifier_version,
       q.topics, q.intent, q.detected_language, q.language_confidence, encode(q.text_sha256, 'hex') as text_sha256,
       encode(h.head, 'hex') as head, h.seq, a.name as held_by, clock() as now
  from job_record r
  join chain_head h on h.job_id = r.job_id
  left join rewrite_request q on q.id = r.rewrite_request_id
  left join actor a on a.id = r.claimed_by
  left join word w on w.about = 'reason' and w.id = r.standing_reason
  left join lateral (select b.id, b.state from batch_item i join batch b on b.id = i.batch_id where i.job_id = r.job_id
                      order by b.created_at desc limit 1) b on true
 where r.job_id = %(id)s
