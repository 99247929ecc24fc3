-- What each pair of languages took; expects since when; returns counts and tokens per pair, provider, model and mode.
select coalesce(source_locale || ' > ' || target_locale, '-') as languages, coalesce(provider, '-') as provider,
       coalesce(model, '-') as model, coalesce(execution_mode, '-') as mode, count(*)::int as jobs,
       sum(input_tokens)::bigint as input_tokens, sum(cached_tokens)::bigint as cached_tokens,
       sum(output_tokens)::bigint as output_tokens
  from audit where %(since)s::timestamptz is null or enqueued_at >= %(since)s::timestamptz
 group by 1, 2, 3, 4 order by 1, 2, 3, 4
