-- A member's answered preferences as they are now; expects names and answers; returns nothing.
with gone as (
  delete from preference where home_id = %(home_id)s and user_id = %(user_id)s and not preference_id = any(%(names)s::text[])
)
insert into preference (home_id, user_id, preference_id, value_key)
select %(home_id)s, %(user_id)s, name, answer from jsonb_each_text(%(answers)s::jsonb) as a (name, answer)
on conflict (user_id, preference_id, home_id) do update set value_key = excluded.value_key
