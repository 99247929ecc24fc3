-- Add a route; expects its columns; returns nothing.
insert into route (id, surface, lane, rewrite_strength, account, priority, decision, active, created_at)
values (%(id)s, %(surface)s, %(lane)s::lane, %(rewrite_strength)s, %(account)s, %(priority)s, %(decision)s::jsonb, true, clock())
on conflict (id) do update set account = excluded.account, priority = excluded.priority, decision = excluded.decision, active = true
