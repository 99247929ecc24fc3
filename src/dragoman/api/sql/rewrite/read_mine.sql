-- How a rewrite of the user who was stated stands; expects the request's id; returns one row or none.
select rewrite_request_id, status, created_at, rewrite_completed_at from my_rewrite where rewrite_request_id = %(id)s
