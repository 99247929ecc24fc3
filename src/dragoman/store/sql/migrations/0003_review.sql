-- Review: inputs, redacted diffs, findings; expects the kernel; returns nothing.

-- Which job is in charge of a version of a changelist; moved by compare-and-set.
create table review (
  changelist_id text not null,
  version int not null check (version > 0),
  home_id uuid not null,
  job_id uuid not null,
  created_at timestamptz not null,
  primary key (changelist_id, version)
);

create table review_input (
  job_id uuid primary key,
  home_id uuid not null,
  changelist_id text not null,
  review_version int not null,
  source jsonb not null,
  recipients text[] not null check (cardinality(recipients) > 0),
  created_at timestamptz not null
);

create table review_diff (
  job_id uuid primary key,
  home_id uuid not null,
  diff text not null,
  changed_files jsonb not null,
  not_reviewed jsonb not null,
  redaction jsonb not null,
  created_at timestamptz not null,
  expires_at timestamptz not null
);
alter table review_diff alter diff set storage external;

create table review_result (
  job_id uuid primary key,
  home_id uuid not null,
  changelist_id text not null,
  review_version int not null,
  schema_version text not null,
  prompt_version text not null,
  provider text not null,
  model text not null,
  summary text,
  diagnostics jsonb not null,
  created_at timestamptz not null
);

create table finding (
  job_id uuid not null,
  position int not null,
  home_id uuid not null,
  severity text not null,
  category text not null,
  title text not null,
  file text not null,
  line int not null,
  end_line int,
  message text not null,
  suggestion text,
  confidence text,
  rule_id text,
  primary key (job_id, position)
);

-- succeeded only when everybody was told.
create function everybody_was_told() returns trigger language plpgsql as $$
begin
  if exists (select from delivery d join job j on (j.changelist_id, j.review_version) = (d.changelist_id, d.review_version)
      where j.id = new.id and d.notified_at is null)
    or not exists (select from review_result r where r.job_id = new.id or r.job_id = (select replay_of from job where id = new.id)) then
    raise exception using errcode = 'DR001', message = 'succeeded_before_told', constraint = 'succeeded_before_told';
  end if;
  return null;
end $$;
create constraint trigger completed_is_told after update on standing deferrable initially deferred
  for each row when (new.pipeline = 2 and new.state = 'completed' and old.state <> 'completed')
  execute function everybody_was_told();

create type new_diff as (
  job_id uuid, home_id uuid, diff text, changed_files jsonb, not_reviewed jsonb, redaction jsonb, at timestamptz
);
create type new_review as (
  job_id uuid, home_id uuid, changelist_id text, review_version int, schema_version text, prompt_version text, provider text,
  model text, summary text, diagnostics jsonb, at timestamptz
);
create type new_finding as (
  job_id uuid, position int, home_id uuid, severity text, category text, title text, file text, line int, end_line int,
  message text, suggestion text, confidence text, rule_id text
);
create type new_delivery as (
  id uuid, changelist_id text, recipient text, review_version int, home_id uuid, job_id uuid, channel text, guarantee text,
  key text, payload bytea, payload_sha256 bytea, max_attempts smallint, at timestamptz
);

insert into pipeline values (2, 'review', '{fetch,llm,notify}');
