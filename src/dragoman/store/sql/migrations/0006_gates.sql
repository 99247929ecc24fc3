-- Gates: what a call to a model must pass, and the calls that are in flight; expects the roles; returns nothing.

-- A gate without a row has no bound and is open: a row is made by the first pause or by the operator.
create table gate (
  key int primary key,
  provider text not null,
  account text not null,
  model text not null,
  max_in_flight int check (max_in_flight > 0),
  requests_per_minute int check (requests_per_minute > 0),
  tokens_per_minute int check (tokens_per_minute > 0),
  batch_tokens bigint check (batch_tokens > 0),
  paused_until timestamptz,
  pause_reason text check (pause_reason in ('throttled', 'quota', 'credit', 'auth', 'operator')),
  pause_note text,
  requests_left float8,
  tokens_left float8,
  refilled_at timestamptz,
  created_at timestamptz not null,
  unique (provider, account, model),
  constraint gate_paused check ((paused_until is null) = (pause_reason is null)),
  constraint gate_filled check ((requests_left is null) = (refilled_at is null) and (tokens_left is null) = (refilled_at is null))
);

-- A call in flight. It counts for as long as its worker has a lease, so that whoever is killed gives its slots back.
create table permit (
  id uuid primary key,
  gate int not null references gate,
  worker_id uuid not null references worker,
  taken_at timestamptz not null
);
create index permit_gate on permit (gate);

-- A gate as it stands. A budget is a bucket of ten seconds, of one call at least, that fills evenly; a large call may empty
-- it below nothing, and then the next ones wait for as long as that takes.
create view gate_now as
select g.key, g.provider, g.account, g.model, g.max_in_flight, g.requests_per_minute, g.tokens_per_minute, g.batch_tokens,
       case when g.paused_until > c.now then g.pause_reason end as pause_reason,
       case when g.paused_until > c.now then g.pause_note end as pause_note,
       case when g.paused_until > c.now then nullif(g.paused_until, 'infinity') end as paused_until,
       case when g.paused_until > c.now then extract(epoch from least(g.paused_until, c.now + interval '300 s') - c.now)::float8
            end as paused_s,
       (select count(*) from permit p join worker w on w.id = p.worker_id
         where p.gate = g.key and w.stopped_at is null and w.expires_at > c.now) as in_flight,
       b.most_requests, b.most_tokens,
       least(b.most_requests, coalesce(g.requests_left, b.most_requests) + b.passed_s * g.requests_per_minute / 60)
         as requests_left,
       least(b.most_tokens, coalesce(g.tokens_left, b.most_tokens) + b.passed_s * g.tokens_per_minute / 60) as tokens_left,
       (select coalesce(sum(payload_bytes), 0)::bigint / 4 from batch o
         where o.closed_at is null and o.ended_at is null
           and o.provider = g.provider and o.account = g.account and o.model = g.model) as tokens_in_batches,
       c.now
  from gate g
 cross join (select clock() as now offset 0) c
 cross join lateral (
   -- Not greatest(): it passes over a null, and no bound would become the smallest one.
   select case when g.requests_per_minute < 6 then 1 else g.requests_per_minute / 6.0 end::float8 as most_requests,
          case when g.tokens_per_minute < 6 then 1 else g.tokens_per_minute / 6.0 end::float8 as most_tokens,
          greatest(extract(epoch from c.now - g.refilled_at), 0)::float8 as passed_s offset 0) b;

-- A worker goes through gates and closes them; only the operator says what they hold.
grant select, insert (key, provider, account, model, created_at),
  update (paused_until, pause_reason, pause_note, requests_left, tokens_left, refilled_at) on gate to dragoman_worker;
grant select, insert, delete on permit to dragoman_worker;
grant select, insert, update on gate to dragoman_operator;
grant select on permit to dragoman_operator;
grant select on gate_now to dragoman_worker, dragoman_operator;
