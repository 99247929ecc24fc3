-- Rewrite: people, requests, snapshots, outputs; expects the kernel; returns nothing.

create table member (
  home_id uuid not null,
  user_id uuid not null,
  role text not null check (role in ('owner', 'housemate')),
  locale text,
  primary key (user_id, home_id)
);
create table preference (
  home_id uuid not null,
  user_id uuid not null,
  preference_id text not null,
  value_key text not null,
  primary key (user_id, preference_id, home_id)
);

create table route (
  id uuid primary key,
  surface text not null,
  lane lane not null,
  rewrite_strength text not null,
  account text not null,
  priority int not null default 0,
  decision jsonb not null,
  active bool not null default true,
  created_at timestamptz not null
);

-- The text stands here and in no other row. What is known only after classification is written once.
create table rewrite_request (
  id uuid primary key,
  home_id uuid not null,
  sender_user_id uuid not null,
  recipient_user_id uuid not null,
  surface text not null,
  original_text text not null,
  text_sha256 bytea not null,
  raw_source_locale text,
  raw_target_locale text,
  created_by uuid not null,
  created_at timestamptz not null,
  classifier_version text,
  classifier_result jsonb,
  defaulted text[],
  detected_language text,
  language_confidence text,
  topics text[],
  intent text,
  rewrite_strength text,
  source_locale text,
  target_locale text,
  lane lane,
  context_pack jsonb,
  policy_version text,
  routing_decision jsonb,
  rewrite_request jsonb,
  routed_at timestamptz,
  failed_at timestamptz,
  failure_code text,
  constraint request_locales check ((source_locale is null) = (target_locale is null)
    and (source_locale is null) = (lane is null)
    and source_locale not in ('unknown', 'und', 'mul', 'zxx', '')
    and target_locale not in ('unknown', 'und', 'mul', 'zxx', '')
    and (lane = 'same_language') = (source_locale = target_locale)),
  constraint routed_whole check (routed_at is null or classifier_result is not null and context_pack is not null
    and rewrite_request is not null and routing_decision is not null and lane is not null)
);
alter table rewrite_request alter original_text set storage external;
create index request_waiting on rewrite_request (created_at) where routed_at is null and failed_at is null;

create trigger write_once before update on rewrite_request for each row when (
  old.id <> new.id or old.home_id <> new.home_id or old.sender_user_id <> new.sender_user_id
  or old.recipient_user_id <> new.recipient_user_id or old.surface <> new.surface
  or old.original_text <> new.original_text or old.text_sha256 <> new.text_sha256
  or old.created_at <> new.created_at
  or old.created_by <> new.created_by or old.raw_source_locale is distinct from new.raw_source_locale
  or old.raw_target_locale is distinct from new.raw_target_locale
  or old.classifier_version is not null and old.classifier_version is distinct from new.classifier_version
  or old.defaulted is not null and old.defaulted is distinct from new.defaulted
  or old.detected_language is not null and old.detected_language is distinct from new.detected_language
  or old.language_confidence is not null and old.language_confidence is distinct from new.language_confidence
  or old.policy_version is not null and old.policy_version is distinct from new.policy_version
  or old.failure_code is not null and old.failure_code is distinct from new.failure_code
  or old.classifier_result is not null and old.classifier_result is distinct from new.classifier_result
  or old.topics is not null and old.topics is distinct from new.topics
  or old.intent is not null and old.intent is distinct from new.intent
  or old.rewrite_strength is not null and old.rewrite_strength is distinct from new.rewrite_strength
  or old.source_locale is not null and old.source_locale is distinct from new.source_locale
  or old.target_locale is not null and old.target_locale is distinct from new.target_locale
  or old.lane is not null and old.lane is distinct from new.lane
  or old.context_pack is not null and old.context_pack is distinct from new.context_pack
  or old.routing_decision is not null and old.routing_decision is distinct from new.routing_decision
  or old.rewrite_request is not null and old.rewrite_request is distinct from new.rewrite_request
  or old.routed_at is not null and old.routed_at is distinct from new.routed_at
  or old.failed_at is not null and old.failed_at is distinct from new.failed_at
) execute function refuse('request_is_write_once');

create table recipient_snapshot (
  id uuid primary key,
  request_id uuid not null unique,
  home_id uuid not null,
  recipients uuid[] not null check (cardinality(recipients) = 1),
  created_at timestamptz not null
);
create table recipient_preference_snapshot (
  id uuid primary key,
  request_id uuid not null unique,
  home_id uuid not null,
  recipient_user_id uuid not null,
  preferences jsonb not null,
  sender_role text not null,
  recipient_role text not null,
  recipient_locale text,
  sender_locale text,
  created_at timestamptz not null
);
create trigger immutable before update on recipient_snapshot for each row execute function refuse('snapshot_is_immutable');
create trigger immutable before update on recipient_preference_snapshot for each row execute function refuse('snapshot_is_immutable');

create table rewrite_output (
  request_id uuid not null,
  recipient_user_id uuid not null,
  home_id uuid not null,
  job_id uuid not null unique,
  rewritten_text text not null,
  output_language text not null,
  target_locale text not null,
  provider text not null,
  model text not null,
  prompt_version text not null,
  policy_version text not null,
  lexicon_version text not null,
  eval_result jsonb not null,
  completed_at timestamptz not null,
  primary key (request_id, recipient_user_id),
  constraint output_in_target check (output_language = target_locale),
  constraint output_was_validated check (coalesce(eval_result ->> 'schema_valid', '') = 'true'
    and eval_result ? 'lexicon_pass' and eval_result ->> 'lexicon_pass' is distinct from 'false')
);
alter table rewrite_output alter rewritten_text set storage external;
create trigger write_once before update on rewrite_output for each row execute function refuse('output_is_write_once');

-- Only the orchestrator's hook says when a sender may see it.
create table reveal (request_id uuid primary key, home_id uuid not null, sender_reveal_at timestamptz not null);

-- completed means stored, and stored means completed: checked together, at the end of the transaction.
create function rewrite_is_stored() returns trigger language plpgsql as $$
begin
  if not exists (select from rewrite_output o join job j on j.id = o.job_id
      where o.job_id = new.id and o.request_id = j.request_id and o.recipient_user_id = j.recipient_id
        and o.target_locale = j.target_locale) then
    raise exception using errcode = 'DR001', message = 'completed_without_output', constraint = 'completed_without_output';
  end if;
  return null;
end $$;
create constraint trigger completed_is_stored after update on standing deferrable initially deferred
  for each row when (new.pipeline = 1 and new.state = 'completed' and old.state <> 'completed')
  execute function rewrite_is_stored();

create function output_is_completed() returns trigger language plpgsql as $$
begin
  if not exists (select from standing s where s.id = new.job_id and s.state = 'completed') then
    raise exception using errcode = 'DR001', message = 'output_without_completed', constraint = 'output_without_completed';
  end if;
  return null;
end $$;
create constraint trigger stored_is_completed after insert on rewrite_output deferrable initially deferred
  for each row execute function output_is_completed();

-- A rewrite's job must match the request it is for, and the request must have its text.
create function job_matches_request() returns trigger language plpgsql as $$
begin
  if not exists (select from rewrite_request r join recipient_snapshot s on s.request_id = r.id
      where r.id = new.request_id and r.home_id = new.home_id and r.recipient_user_id = new.recipient_id
        and s.recipients = array[new.recipient_id] and r.source_locale = new.source_locale
        and r.target_locale = new.target_locale and r.lane = new.lane and r.failed_at is null) then
    raise exception using errcode = 'DR001', message = 'job_differs_from_request', constraint = 'job_differs_from_request';
  end if;
  return new;
end $$;
create trigger matches_request before insert on job
  for each row when (new.pipeline = 1) execute function job_matches_request();

create type new_output as (
  request_id uuid, recipient_user_id uuid, home_id uuid, job_id uuid, rewritten_text text, output_language text,
  target_locale text, provider text, model text, prompt_version text, policy_version text, lexicon_version text,
  eval_result jsonb, completed_at timestamptz
);

insert into pipeline values (1, 'rewrite', '{generate}');
