-- The newest rewrites of the user who was stated; expects how many at most; returns them, the newest first.
select rewrite_request_id, status, created_at, rewrite_completed_at from my_rewrite
 order by created_at desc, rewrite_request_id limit %(most)s
