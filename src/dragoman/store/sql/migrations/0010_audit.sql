-- What the audit reads by time, and the whole record of an execution; expects the roles and the changes; returns nothing.

-- A history grows in the order of its times, so that an index of a few pages finds an hour in a month of it.
create index event_at on event using brin (at) with (pages_per_range = 32, autosummarize = on);

-- The record of an execution, folded from its events alone: it stays when the job's own rows are gone.
create view audit as
with told as (
  select job_id, home_id, seq, at, kind, reason,
         case when kind in (1, 4, 6, 29) then convert_from(facts, 'UTF8')::jsonb end as facts,
         case kind when 1 then 'queued' when 2 then 'processing' when 4 then 'batch_submitted' when 5 then 'completed'
                   when 6 then 'failed' when 7 then 'queued' when 8 then 'queued' when 9 then 'queued' when 10 then 'queued'
                   when 11 then 'canceled' when 13 then 'queued' end as became
    from event
),
folded as (
  select job_id, home_id,
         (array_agg(facts order by seq) filter (where kind = 1))[1] as intent,
         (array_agg(facts order by seq) filter (where kind = 4))[1] as submission,
         (array_agg(facts order by seq desc) filter (where kind = 29))[1] as verdict,
         (array_agg(facts order by seq desc) filter (where kind = 6))[1] as failure,
         count(*) filter (where kind in (6, 13) or kind = 7 and reason = 1) as attempts,
         (array_agg(became order by seq desc) filter (where became is not null))[1] as status,
         jsonb_agg(jsonb_build_object('state', became, 'at', to_char(at at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
                   order by seq) filter (where became is not null) as timestamps,
         min(at) as enqueued_at, max(at) filter (where kind in (5, 6, 11)) as ended_at,
         coalesce(sum((facts ->> 'input_tokens')::bigint), 0)::bigint as input_tokens,
         coalesce(sum((facts ->> 'cached_tokens')::bigint), 0)::bigint as cached_tokens,
         coalesce(sum((facts ->> 'output_tokens')::bigint), 0)::bigint as output_tokens
    from told group by job_id, home_id
)
select (intent ->> 'rewrite_request_id')::uuid as rewrite_request_id, job_id, home_id,
       (intent ->> 'sender_user_id')::uuid as sender_user_id, (intent ->> 'recipient_user_id')::uuid as recipient_user_id,
       (intent ->> 'recipient_snapshot_id')::uuid as recipient_snapshot_id,
       (intent ->> 'recipient_preference_snapshot_id')::uuid as recipient_preference_snapshot_id,
       intent ->> 'source_locale' as source_locale, intent ->> 'target_locale' as target_locale, intent ->> 'lane' as lane,
       intent ->> 'classifier_version' as classifier_version, intent ->> 'detected_language' as detected_language,
       intent ->> 'language_confidence' as language_confidence, intent ->> 'provider' as provider, intent ->> 'model' as model,
       intent ->> 'prompt_version' as prompt_version, intent ->> 'policy_version' as policy_version,
       intent ->> 'execution_mode' as execution_mode, submission ->> 'provider_batch_id' as provider_batch_id,
       intent ->> 'batch_group_key' as batch_group_key, (submission ->> 'batch_id')::uuid as batch_id,
       (submission ->> 'batch_item_index')::int as batch_item_index, attempts, timestamps, status,
       enqueued_at, ended_at, input_tokens, cached_tokens, output_tokens, verdict ->> 'verdict' as verdict,
       verdict -> 'eval' as checks, failure ->> 'code' as failure_code
  from folded;
grant select on audit to dragoman_auditor, dragoman_operator;

-- An auditor finds a job by the request that it was made for; these are ids and nothing else.
grant select (id, request_id, replay_of) on job to dragoman_auditor;
