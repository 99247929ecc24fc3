-- What a process asks before it starts; expects the roles; returns nothing.

-- Every role proves which cell it was led to, and that its program fits the schema.
grant select on migration to dragoman_orchestrator, dragoman_worker, dragoman_operator, dragoman_frontend,
  dragoman_auditor, dragoman_eraser;
grant select on cell to dragoman_frontend, dragoman_eraser;
