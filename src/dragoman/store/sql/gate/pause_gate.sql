-- Close a gate unless it is closed for longer already; expects it locked before, the reason, the seconds (null: until somebody
-- opens it) and a note; returns whether this is a pause of its own and not one that lasts a little longer.
with was as materialized (
  select g.key, g.paused_until > c.now as is_paused, g.pause_reason, g.paused_until,
         case when %(pause_s)s::float8 is null then 'infinity' else c.now + make_interval(secs => %(pause_s)s::float8) end as until
    from gate g cross join (select clock() as now) c where g.key = %(key)s
)
update gate g set paused_until = was.until, pause_reason = %(reason)s::text, pause_note = %(note)s
  from was
 where g.key = was.key and coalesce(was.paused_until, '-infinity') < was.until
returning not coalesce(was.is_paused, false) or was.pause_reason <> %(reason)s::text as is_new
