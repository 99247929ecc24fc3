-- Which cell this is, what made it, and how far its history has room; returns one row.
select i.name, i.migrations,
       (select coalesce(min(k) filter (where p.oid is null), 4)
          from generate_series(0, 3) k
          left join pg_class p on p.relispartition and p.relnamespace = current_schema()::regnamespace
            and p.relname = 'event_' || to_char(date_trunc('month', clock() at time zone 'utc') + make_interval(months => k), 'YYYY_MM')
       ) as months
  from installed i
