-- Make a message durable with its two snapshots, before anything looks at it; expects ids and the text; returns the request's
-- id if it is new. Both people must be members of the home: else nothing is stored and nothing comes back.
with sender as materialized (
  select role, locale from member where home_id = %(home_id)s and user_id = %(sender_user_id)s
),
recipient as materialized (
  select role, locale from member where home_id = %(home_id)s and user_id = %(recipient_user_id)s
),
made as (
  insert into rewrite_request (id, home_id, sender_user_id, recipient_user_id, surface, original_text, text_sha256,
                               raw_source_locale, raw_target_locale, created_by, created_at)
  select %(id)s, %(home_id)s, %(sender_user_id)s, %(recipient_user_id)s, %(surface)s, %(text)s, %(text_sha256)s,
         coalesce(%(sender_locale)s, sender.locale), coalesce(%(recipient_locale)s, recipient.locale), %(actor)s, clock()
    from sender cross join recipient
  on conflict (id) do nothing
  returning id, created_at
),
targets as (
  insert into recipient_snapshot (id, request_id, home_id, recipients, created_at)
  select %(recipient_snapshot_id)s, id, %(home_id)s, array[%(recipient_user_id)s::uuid], created_at from made
),
tastes as (
  insert into recipient_preference_snapshot (id, request_id, home_id, recipient_user_id, preferences, sender_role,
                                             recipient_role, recipient_locale, sender_locale, created_at)
  select %(preference_snapshot_id)s, made.id, %(home_id)s, %(recipient_user_id)s,
         coalesce((select jsonb_object_agg(preference_id, value_key) from preference
                    where home_id = %(home_id)s and user_id = %(recipient_user_id)s), '{}'),
         sender.role, recipient.role, coalesce(%(recipient_locale)s, recipient.locale), coalesce(%(sender_locale)s, sender.locale),
         created_at
    from made cross join sender cross join recipient
)
select id from made
