-- Make an actor known; expects id, role, name; returns nothing.
insert into actor (id, role, name, created_at) values (%(id)s, %(role)s, %(name)s, clock()) on conflict (id) do nothing
