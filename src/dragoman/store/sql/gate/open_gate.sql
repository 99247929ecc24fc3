-- Open a gate; expects it locked before; returns why it was closed, or nothing if it was open.
with was as materialized (select key, pause_reason from gate_now where key = %(key)s and pause_reason is not null)
update gate g set paused_until = null, pause_reason = null, pause_note = null from was where g.key = was.key
returning was.pause_reason as why
