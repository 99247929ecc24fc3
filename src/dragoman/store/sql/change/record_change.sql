-- Extend the chain of changes; expects the actor, verb, subject and facts, and the chain locked; returns the number.
with head as (select seq, hash from change order by seq desc limit 1),
given as materialized (
  select coalesce((select seq from head), 0) + 1 as seq, coalesce((select hash from head), '\x') as head, clock() as at
)
insert into change (seq, at, actor, verb, subject, facts, hash)
select seq, at, %(actor)s, %(verb)s, %(subject)s, %(facts)s,
       sha256(head || int4send(seq) || timestamptz_send(at) || uuid_send(%(actor)s) || %(facts)s)
  from given
returning seq
