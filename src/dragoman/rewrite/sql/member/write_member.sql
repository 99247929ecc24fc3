-- Who lives where, in which role, reading which language; expects the member; returns nothing.
insert into member (home_id, user_id, role, locale) values (%(home_id)s, %(user_id)s, %(role)s, %(locale)s)
on conflict (user_id, home_id) do update set role = excluded.role, locale = excluded.locale
