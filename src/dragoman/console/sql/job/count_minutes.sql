-- What was accepted and what became final in each of the last 60 minutes; returns a row per minute.
with since as materialized (
  select (lpad(to_hex((extract(epoch from clock() - interval '24 hours') * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid as id,
         date_trunc('minute', clock()) - interval '59 minutes' as first
),
moments as (
  select date_trunc('minute', s.created_at) as minute, 'accepted' as what from standing s
   where s.id >= (select id from since) and s.created_at >= (select first from since)
  union all
  select date_trunc('minute', s.last_event_at), s.state::text from standing s
   where s.id >= (select id from since) and s.last_event_at >= (select first from since)
     and s.state in ('completed', 'failed', 'canceled')
)
select m.minute, count(*) filter (where what = 'accepted') as accepted, count(*) filter (where what = 'completed') as completed,
       count(*) filter (where what = 'failed') as failed, count(*) filter (where what = 'canceled') as canceled
  from since cross join generate_series(since.first, since.first + interval '59 minutes', interval '1 minute') as m (minute)
  left join moments using (minute)
 group by m.minute order by m.minute
