-- What the two halves of the generate stage need of these jobs; expects job ids; returns requests with their texts.
select j.id as job_id, r.rewrite_request, r.original_text
  from job j join rewrite_request r on r.id = j.request_id
 where j.id = any(%(ids)s) and r.routed_at is not null
   and r.source_locale = j.source_locale and r.target_locale = j.target_locale and r.lane = j.lane
   and r.recipient_user_id = j.recipient_id and r.home_id = j.home_id
