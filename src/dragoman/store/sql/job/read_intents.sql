-- What a model's stage needs of the jobs that it holds; expects their ids; returns their intents.
select id, unit, account, group_key, routing from job where id = any(%(ids)s)
