-- A held start: what an engine with restored or exchanged data may not do until an operator says so; expects the kernel;
-- returns nothing.

create table hold (
  id uuid primary key,
  why text not null check (why in ('restored', 'older_data', 'other_data', 'unknown_data', 'asked')),
  incarnation uuid not null,       -- of these data before; what is on its way was made under it
  data_at timestamptz not null,    -- what happened after this may be unknown here
  held_at timestamptz not null,
  asked_at timestamptz,            -- when every provider had told of its batches
  released_at timestamptz,
  released_by uuid references actor,
  check ((released_at is null) = (released_by is null))
);
create unique index hold_open on hold ((released_at is null)) where released_at is null;

create trigger fixed_columns before update on hold for each row when (
  old.id <> new.id or old.why <> new.why or old.incarnation <> new.incarnation or old.data_at <> new.data_at
  or old.held_at <> new.held_at or old.released_at is not null
) execute function refuse('column_is_fixed');

-- Since when a file beside the data tells which data belong here.
alter table cell add marked_at timestamptz;

-- The last restore that put this message in doubt.
alter table delivery add hold_id uuid;

create function refuse_while_held() returns trigger language plpgsql as $$
begin
  if exists (select from hold where released_at is null) then
    raise exception using errcode = 'DR001', message = 'held', constraint = 'held', table = tg_table_name;
  end if;
  return new;
end $$;
create trigger nothing_while_held before update on batch for each row
  when (old.started_at is null and new.started_at is not null and new.state = 'submitting')
  execute function refuse_while_held();
create trigger nothing_while_held before update on delivery for each row
  when (old.state <> 'sending' and new.state = 'sending') execute function refuse_while_held();

grant select on hold to dragoman_orchestrator, dragoman_worker, dragoman_operator, dragoman_auditor;
grant update (asked_at) on hold to dragoman_worker;
grant insert on hold to dragoman_operator;
grant update (asked_at, released_at, released_by) on hold to dragoman_operator;
