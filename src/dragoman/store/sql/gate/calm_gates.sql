-- Close the alerts of gates whose pause ended and was not renewed; expects the alerts' kind, and for how long a gate must have been
-- open; returns how many by its row count.
update alert a set closed_at = clock()
 where a.kind = %(kind)s::text and a.closed_at is null
   and exists (
     select from gate g
      where g.provider || '/' || g.account || '/' || g.model = a.subject
        and coalesce(g.paused_until, '-infinity') + make_interval(secs => %(calm_s)s::float8) < (select clock()))
