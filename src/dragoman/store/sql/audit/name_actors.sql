-- Who actors are; expects their ids; returns roles and names.
select id, role, name from actor where id = any(%(ids)s::uuid[])
