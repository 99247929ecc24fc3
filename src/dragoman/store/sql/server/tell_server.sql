-- How the server stands that we were led to; expects names of settings; returns one row, NULL for a setting it has not.
select current_user::text as "user", session_user::text as login, current_setting('server_version_num')::int as version,
       pg_is_in_recovery() as is_replica, current_setting('transaction_read_only') = 'on' as is_read_only,
       current_schema()::text as schema,
       coalesce(has_table_privilege(to_regclass('installed'), 'select'), false) as has_schema,
       (select jsonb_object_agg(name, current_setting(name, true)) from unnest(%(names)s::text[]) name) as settings
