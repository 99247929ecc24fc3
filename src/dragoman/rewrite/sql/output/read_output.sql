-- The one output of a request; expects the request's id; returns its text.
select o.rewritten_text, o.output_language, o.provider, o.model, o.eval_result, o.completed_at
  from rewrite_output o where o.request_id = %(id)s
