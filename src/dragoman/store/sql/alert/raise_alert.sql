-- Raise an alert, or count it again while it is open; expects id, kind, subject, severity, facts; returns its id.
insert into alert (id, kind, subject, severity, facts, first_at, last_at)
values (%(id)s, %(kind)s, %(subject)s, %(severity)s, %(facts)s::jsonb, clock(), clock())
on conflict (subject, kind) where closed_at is null
do update set times = alert.times + 1, last_at = excluded.last_at
returning id
