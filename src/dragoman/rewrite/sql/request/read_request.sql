-- A request as the orchestrator goes on with it; expects its id; returns it with its snapshots and its job, if there is one.
select r.id, r.home_id, r.sender_user_id, r.recipient_user_id, r.surface, r.original_text, r.text_sha256, r.created_at,
       rs.id as recipient_snapshot_id, ps.id as preference_snapshot_id, ps.preferences, ps.sender_role, ps.recipient_role,
       ps.sender_locale, ps.recipient_locale, r.routed_at, r.failed_at, j.id as job_id, s.state::text as state
  from rewrite_request r
  join recipient_snapshot rs on rs.request_id = r.id
  join recipient_preference_snapshot ps on ps.request_id = r.id
  left join job j on j.request_id = r.id
  left join standing s on s.id = j.id
 where r.id = %(id)s
