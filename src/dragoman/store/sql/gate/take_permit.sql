-- Take a permit of a gate, or say why not; expects the gate locked before, the permit, the worker, what it will use; returns why
-- not, and after how many seconds to ask again.
with asked as materialized (
  select g.key, g.now, g.requests_left, g.tokens_left, g.paused_s, g.pause_reason,
         least(%(requests)s::float8, g.most_requests) - g.requests_left as requests_short,
         least(%(tokens)s::float8, g.most_tokens) - g.tokens_left as tokens_short,
         g.requests_per_minute / 60.0 as requests_per_s, g.tokens_per_minute / 60.0 as tokens_per_s,
         g.max_in_flight <= g.in_flight as is_full
    from gate_now g where g.key = %(key)s
),
judged as materialized (
  select key, now, requests_left, tokens_left, requests_per_s, tokens_per_s,
         case when pause_reason is not null then pause_reason
              when is_full then 'in_flight'
              when requests_short > 0 then 'requests_per_minute'
              when tokens_short > 0 then 'tokens_per_minute' end as why,
         case when pause_reason is not null then paused_s
              when is_full then 1.0
              when requests_short > 0 or tokens_short > 0
                then greatest(requests_short / requests_per_s, tokens_short / tokens_per_s) end::float8 as delay_s
    from asked
),
taken as (
  insert into permit (id, gate, worker_id, taken_at)
  select %(id)s, key, %(worker)s, now from judged where why is null
),
used as (
  update gate g
     set requests_left = coalesce(j.requests_left - %(requests)s::float8, 0),
         tokens_left = coalesce(j.tokens_left - %(tokens)s::float8, 0), refilled_at = j.now
    from judged j
   where g.key = j.key and j.why is null and (j.requests_per_s is not null or j.tokens_per_s is not null)
)
select why, delay_s from judged
