-- Make a queue known under its key; expects its name; returns the key if the key and the name belong together.
with made as (
  insert into queue (key, pipeline, stage, mode, provider, account, model)
  select %(key)s, p.id, %(stage)s, %(mode)s::mode, %(provider)s, %(account)s, %(model)s from pipeline p where p.name = %(pipeline)s
  on conflict do nothing
  returning key
)
select key from made
union
select q.key from queue q join pipeline p on p.id = q.pipeline
 where q.key = %(key)s and p.name = %(pipeline)s and q.stage = %(stage)s and q.mode = %(mode)s::mode
   and q.provider = %(provider)s and q.account = %(account)s and q.model = %(model)s
