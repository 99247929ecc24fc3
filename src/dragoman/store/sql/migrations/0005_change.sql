-- What people and processes changed outside of jobs: gates, schedules, risks accepted; expects the roles; returns nothing.

-- One chain for the whole cell: such changes are rare, so that a lock on the chain costs nothing.
create table change (
  seq int primary key,
  at timestamptz not null,
  actor uuid not null,
  verb text not null,
  subject text not null,
  facts bytea not null,
  hash bytea not null
);
create trigger append_only before update or delete on change for each row execute function refuse('changes_are_append_only');

grant select, insert on change to dragoman_operator, dragoman_worker;
grant select on change to dragoman_auditor;

-- The changes with words instead of numbers.
create view change_history as
select c.seq, c.at, a.role as actor_role, a.name as actor, c.verb, c.subject, convert_from(c.facts, 'UTF8')::jsonb as facts, c.hash
  from change c left join actor a on a.id = c.actor;
grant select on change_history to dragoman_operator, dragoman_auditor;
