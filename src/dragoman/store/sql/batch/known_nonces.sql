-- Which of these submissions are known here; expects nonces; returns those.
select nonce from batch where nonce = any(%(nonces)s::text[])
