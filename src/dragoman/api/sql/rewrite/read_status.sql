-- How a rewrite stands, in the four words that a product's users may see; expects the request's id; returns one row or none.
select rewrite_request_id, status, created_at, rewrite_completed_at from rewrite_status where rewrite_request_id = %(id)s
