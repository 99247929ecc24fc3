-- What the checks said of each prompt's outputs; expects since when; returns counts per prompt version and code.
select coalesce(a.prompt_version, '-') as prompt_version, c.code, count(*)::int as jobs
  from audit a
 cross join lateral (
   select coalesce(a.verdict, a.failure_code) as code
   union all
   select jsonb_array_elements_text(a.checks -> 'warnings')) c
 where c.code is not null and (%(since)s::timestamptz is null or a.enqueued_at >= %(since)s::timestamptz)
 group by 1, 2 order by 1, 2
