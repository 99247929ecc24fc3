-- Make a waiting job ready before its time, because what it waits for has happened; expects ids; returns those woken.
update standing set ready = true, not_before_at = null
 where id = any(%(ids)s) and state = 'queued' and not ready and reason = %(reason)s
returning id
