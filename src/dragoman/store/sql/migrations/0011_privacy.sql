-- Erasure and what a product's own users may read; expects the kernel, both pipelines and the roles; returns nothing.

-- What is left of an erased job: enough to verify its chain, and to go on with it when something comes late.
create table tombstone (
  job_id uuid primary key,
  home_id uuid not null,
  pipeline smallint not null,
  stage smallint not null,
  attempt smallint not null,
  seq int not null,
  head bytea not null,
  last_event_at timestamptz not null,
  erased_at timestamptz not null,
  erased_by uuid not null
);
create trigger extends_its_chain before update on tombstone for each row when (
  old.job_id <> new.job_id or old.home_id <> new.home_id or old.pipeline <> new.pipeline or old.stage <> new.stage
  or old.attempt <> new.attempt or old.erased_at <> new.erased_at or old.erased_by <> new.erased_by
  or new.seq <> old.seq + 1 or new.head = old.head or new.last_event_at < old.last_event_at
) execute function refuse('tombstone_only_grows');
create trigger stays before delete on tombstone for each row execute function refuse('tombstone_stays');

-- No role but the owner may delete these rows, and the owner's own slip is refused too. The mark is a setting, so that the
-- owner could set it by hand: it guards against a bug, not against the owner.
create trigger erased_only before delete on job for each row
  when (current_setting('dragoman.erasing', true) is distinct from 'on') execute function refuse('only_erasure_deletes');
create trigger erased_only before delete on standing for each row
  when (current_setting('dragoman.erasing', true) is distinct from 'on') execute function refuse('only_erasure_deletes');
create trigger erased_only before delete on rewrite_request for each row
  when (current_setting('dragoman.erasing', true) is distinct from 'on') execute function refuse('only_erasure_deletes');
create trigger erased_only before delete on recipient_snapshot for each row
  when (current_setting('dragoman.erasing', true) is distinct from 'on') execute function refuse('only_erasure_deletes');
create trigger erased_only before delete on recipient_preference_snapshot for each row
  when (current_setting('dragoman.erasing', true) is distinct from 'on') execute function refuse('only_erasure_deletes');
create trigger erased_only before delete on rewrite_output for each row
  when (current_setting('dragoman.erasing', true) is distinct from 'on') execute function refuse('only_erasure_deletes');
create trigger erased_only before delete on delivery for each row
  when (current_setting('dragoman.erasing', true) is distinct from 'on') execute function refuse('only_erasure_deletes');

-- A home is found without reading everybody's rows.
create index request_home on rewrite_request (home_id, created_at);
create index job_home on job (home_id) where request_id is null;
create index member_home on member (home_id);
create index preference_home on preference (home_id);

-- One bounded step of erasing a home, or one person of it; with `most` 0 it only counts what there is. Call it until it
-- finds nothing. It never waits for a row: what somebody else has locked, or is sending right now, is left for a later call,
-- so that it can be in no deadlock with claim, finish or relay. Returns what it erased.
create function erase(home uuid, usr uuid, most int, who uuid, who_name text,
                      out people int, out requests int, out jobs int, out messages int)
language plpgsql security definer set search_path from current set lock_timeout = '2s' as $$
declare
  asked uuid[];    -- requests, locked
  held uuid[];     -- jobs whose standing is locked
  letters uuid[];  -- their messages, locked
  gone uuid[];     -- jobs to erase now
  facts bytea;
begin
  most := least(coalesce(most, 0), 1000);
  select count(*) into people from (
    select m.user_id from member m where m.home_id = home and (usr is null or m.user_id = usr)
    union
    select p.user_id from preference p where p.home_id = home and (usr is null or p.user_id = usr)) k;

  if most = 0 then
    select count(*), count(j.id) into requests, jobs
      from rewrite_request r left join job j on j.request_id = r.id
     where r.home_id = home and (usr is null or usr in (r.sender_user_id, r.recipient_user_id));
    select jobs + count(distinct j.id), count(d.id) into jobs, messages
      from job j left join delivery d on d.job_id = j.id
     where j.home_id = home and j.request_id is null and usr is null;
    return;
  end if;

  perform set_config('dragoman.erasing', 'on', true);
  requests := 0; jobs := 0; messages := 0;
  if people > 0 then
    -- Whoever is about to store a request has read that both are members: once this lock is ours, all of those are stored
    -- and later calls find them; whoever comes after it finds no member and stores nothing.
    lock table rewrite_request in share row exclusive mode;
    delete from preference p where p.home_id = home and (usr is null or p.user_id = usr);
    delete from member m where m.home_id = home and (usr is null or m.user_id = usr);
  else
    asked := array(
      select r.id from rewrite_request r
       where r.home_id = home and (usr is null or usr in (r.sender_user_id, r.recipient_user_id))
       limit most for update skip locked);
    held := array(
      select s.id from standing s
       where s.id = any(array(
         select j.id from job j where j.request_id = any(asked)
         union all
         (select j.id from job j where j.home_id = home and j.request_id is null and usr is null limit most)))
       order by s.id for update skip locked);

    -- Cancel what is not final, so that nothing more is begun for it.
    with moved as (
      update standing s
         set state = 'canceled', ready = false, not_before_at = null, claim_token = null, claimed_by = null,
             claimed_at = null, reason = 15, seq = s.seq + 1, last_event_at = greatest(g.at, s.last_event_at),
             head = chain(s.head, s.id, s.seq + 1, 11::int2, null, (s.stage_attempts + 1)::int2, s.stage, 15::int2, who,
                          greatest(g.at, s.last_event_at), null)
        from (select o.id, o.state as was, clock() as at from standing o
               where o.id = any(held) and o.state not in ('completed', 'failed', 'canceled') offset 0) g
       where s.id = g.id
      returning s.id, s.home_id, s.seq, s.last_event_at, s.head, s.stage, s.stage_attempts, s.queue_key, g.was
    ),
    counted as (
      insert into queue_delta (at, queue_key, state, n)
      select min(last_event_at), queue_key, was, -count(*) from moved group by queue_key, was
      union all
      select min(last_event_at), queue_key, 'canceled', count(*) from moved group by queue_key
    )
    insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, actor, hash)
    select m.id, m.home_id, m.seq, m.last_event_at, 11, 15, m.stage, m.stage_attempts + 1, who, m.head from moved m;

    letters := array(select d.id from delivery d where d.job_id = any(held) for update skip locked);
    update delivery d set state = 'canceled', next_attempt_at = null where d.id = any(letters) and d.state = 'queued';

    with items as materialized (
      select i.batch_id, i.item_index from batch_item i where i.job_id = any(held) for update skip locked
    ),
    dead as materialized (select l.id from dead_letter l where l.job_id = any(held) for update skip locked)
    select array(
      select unnest(held)
      except
      select d.job_id from delivery d
       where d.job_id = any(held) and (d.id <> all(letters) or d.state = 'sending' and d.deadline_at > clock())
      except
      select i.job_id from batch_item i
       where i.job_id = any(held) and (i.batch_id, i.item_index) not in (select * from items)
      except
      select l.job_id from dead_letter l where l.job_id = any(held) and l.id not in (select dead.id from dead)
    ) into gone;

    -- The last event of each chain; its head stands on the tombstone from now on.
    with laid as (
      insert into tombstone (job_id, home_id, pipeline, stage, attempt, seq, head, last_event_at, erased_at, erased_by)
      select s.id, s.home_id, s.pipeline, s.stage, s.stage_attempts + 1, s.seq + 1,
             chain(s.head, s.id, s.seq + 1, 27::int2, null, (s.stage_attempts + 1)::int2, s.stage, 0::int2, who, s.at, null),
             s.at, s.at, who
        from (select *, greatest(clock(), last_event_at) as at from standing where id = any(gone) offset 0) s
      returning *
    )
    insert into event (job_id, home_id, seq, at, kind, reason, stage, attempt, actor, hash)
    select t.job_id, t.home_id, t.seq, t.last_event_at, 27, 0, t.stage, t.attempt, who, t.head from laid t;
    insert into queue_delta (at, queue_key, state, n)
    select clock(), s.queue_key, s.state, -count(*) from standing s where s.id = any(gone) group by s.queue_key, s.state;

    -- What was sent to a provider cannot be called back: its line will be dropped when it comes.
    update batch_item i set state = 'ignored', code = 'erased', settled_at = clock()
     where i.job_id = any(gone) and i.state = 'open';
    delete from alert a
     where a.subject = any(gone::text[])
        or a.subject in (select d.id::text from delivery d where d.job_id = any(gone));
    delete from delivery d where d.job_id = any(gone);
    get diagnostics messages = row_count;
    delete from review r using job j
     where j.id = any(gone) and r.changelist_id = j.changelist_id and r.version = j.review_version and r.job_id = j.id;
    delete from review_input i where i.job_id = any(gone);
    delete from review_diff d where d.job_id = any(gone);
    delete from review_result r where r.job_id = any(gone);
    delete from finding f where f.job_id = any(gone);
    delete from stage_result r where r.job_id = any(gone);
    delete from dead_letter l where l.job_id = any(gone);
    delete from standing s where s.id = any(gone);
    delete from job j where j.id = any(gone);
    get diagnostics jobs = row_count;

    asked := array(select a from unnest(asked) a where not exists (select from job j where j.request_id = a));
    delete from rewrite_output o where o.request_id = any(asked);
    delete from reveal v where v.request_id = any(asked);
    delete from recipient_snapshot s where s.request_id = any(asked);
    delete from recipient_preference_snapshot s where s.request_id = any(asked);
    delete from rewrite_request r where r.id = any(asked);
    get diagnostics requests = row_count;
  end if;
  perform set_config('dragoman.erasing', '', true);

  insert into actor (id, role, name, created_at) values (who, 'eraser', who_name, clock()) on conflict (id) do nothing;
  if people + requests + jobs > 0 then
    facts := convert_to(
      '{"home":"' || home || '","jobs":' || jobs || ',"messages":' || messages || ',"people":' || people
      || ',"requests":' || requests || ',"subject":"home ' || home || '"' || coalesce(',"user":"' || usr || '"', '')
      || ',"verb":"erase"}', 'UTF8');
    perform pg_advisory_xact_lock(109299962373989);  -- the lock of the chain of changes
    insert into change (seq, at, actor, verb, subject, facts, hash)
    select c.seq, c.at, who, 'erase', 'home ' || home, facts,
           sha256(c.head || int4send(c.seq) || timestamptz_send(c.at) || uuid_send(who) || facts)
      from (select coalesce((select max(seq) from change), 0) + 1 as seq, clock() as at,
                   coalesce((select hash from change order by seq desc limit 1), '\x') as head offset 0) c;
  end if;
end $$;
revoke execute on function erase from public;
grant execute on function erase to dragoman_eraser;

-- Whoever notes what comes late extends the chain of an erased job where its head is now.
grant select, update (seq, head, last_event_at) on tombstone to dragoman_worker, dragoman_operator;
grant select on tombstone to dragoman_auditor;

-- The heads of all chains: of an erased job the tombstone's, else an auditor could not see a cut tail.
create or replace view chain_head as
select id as job_id, home_id, seq, head, last_event_at from standing
 union all
select job_id, home_id, seq, head, last_event_at from tombstone;

-- What a product's own user may see: the home and the user that the door has stated in this transaction, and without both
-- nothing. The sender sees what was sent, the recipient what has been delivered.
revoke select on rewrite_status from dragoman_frontend;
create view my_rewrite with (security_barrier) as
select s.rewrite_request_id, s.status, s.created_at, s.rewrite_completed_at
  from rewrite_status s
 where s.home_id = nullif(current_setting('dragoman.home', true), '')::uuid
   and (s.sender_user_id = nullif(current_setting('dragoman.user', true), '')::uuid
     or s.recipient_user_id = nullif(current_setting('dragoman.user', true), '')::uuid
        and s.status in ('delivered', 'revealed'));
grant select on my_rewrite to dragoman_frontend;
