-- Say what a gate holds; expects it locked before, and all four limits; returns its key. A budget that changes is full.
update gate
   set max_in_flight = %(max_in_flight)s::int, requests_per_minute = %(requests_per_minute)s::int,
       tokens_per_minute = %(tokens_per_minute)s::int, batch_tokens = %(batch_tokens)s::bigint,
       requests_left = null, tokens_left = null, refilled_at = null
 where key = %(key)s
returning key
