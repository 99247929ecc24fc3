-- What a process asks before it starts; expects the roles; returns nothing.

-- Every role proves which cell it was led to, and that its program fits the schema; it reads no table for that.
create view installed as
select c.name, (select array_agg(m.name order by m.name) from migration m) as migrations from cell c;
grant select on installed to dragoman_orchestrator, dragoman_worker, dragoman_operator, dragoman_frontend,
  dragoman_auditor, dragoman_eraser;
