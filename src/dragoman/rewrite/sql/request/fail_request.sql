-- A request that never got its job has failed; expects its id and a code; returns its id.
update rewrite_request r set failed_at = clock(), failure_code = %(code)s
 where r.id = %(id)s and r.failed_at is null and not exists (select from job j where j.request_id = r.id)
returning id
