-- How often each model ended how; expects since when; returns counts per provider and model.
select coalesce(provider, '-') as provider, coalesce(model, '-') as model, count(*)::int as jobs,
       (count(*) filter (where status = 'completed'))::int as completed, (count(*) filter (where status = 'failed'))::int as failed,
       (count(*) filter (where status = 'canceled'))::int as canceled, coalesce(sum(attempts), 0)::int as attempts
  from audit where %(since)s::timestamptz is null or enqueued_at >= %(since)s::timestamptz
 group by 1, 2 order by 1, 2
