-- Requests that have waited too long for their job have failed; expects seconds; returns their ids.
update rewrite_request r set failed_at = clock(), failure_code = 'never_enqueued'
 where r.routed_at is null and r.failed_at is null
   and r.created_at < (select clock()) - make_interval(secs => %(older_s)s)
   and not exists (select from job j where j.request_id = r.id)
returning id
